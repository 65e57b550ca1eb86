// The dialog that starts a run.

import { ask } from "./dialogs.js";
import { runLink } from "./runs.js";

// `types` are those that the list has shown: whoever starts a run has often seen one of its kind.
export function startWorkflow({ api, types = [] }) {
  return ask({
    title: "Start a workflow",
    fields: [
      { name: "type", label: "Type", required: true, choices: types },
      { name: "workflow_id", label: "Id", hint: "made by the server when empty" },
      { name: "input", label: "Input", kind: "area" },
      { name: "task_queue", label: "Task queue", hint: "default" },
      { name: "namespace", label: "Namespace", hint: "default", value: api.namespace },
    ],
    action: "Start",
    submit: async ({ namespace, ...values }, request_id) => {
      const given = Object.entries(values).filter(([, value]) => value !== "");
      const there = api.within(namespace.trim());
      const body = { ...Object.fromEntries(given), request_id };
      const started = await there.post("/api/workflows", body);
      location.hash = runLink(started, there.namespace);
    },
  });
}
