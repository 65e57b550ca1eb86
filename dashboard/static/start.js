// Starting a workflow.

import { ask } from "./dialogs.js";
import { runLink } from "./runs.js";

export function startWorkflow({ api }) {
  return ask({
    title: "Start a workflow",
    fields: [
      { name: "type", label: "Type", required: true, value: "OrderSaga" },
      { name: "workflow_id", label: "Id", hint: "made by the server when empty" },
      { name: "task_queue", label: "Task queue", hint: "default" },
      { name: "input", label: "Input", kind: "area" },
    ],
    action: "Start",
    submit: async (values) => {
      const given = Object.entries(values).filter(([, value]) => value !== "");
      const started = await api.post("/api/workflows", Object.fromEntries(given));
      location.hash = runLink(started, api.namespace);
    },
  });
}
