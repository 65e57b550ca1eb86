// What can be done to a run. Two people may act on one at once: then each is told what the run was
// when they decided, what it is now, and whether what they did had any effect.

import { workflowPath } from "./api.js";
import { ask } from "./dialogs.js";
import { h, localTime, reconcile } from "./dom.js";
import { link } from "./routes.js";

export const OPEN = new Set(["RUNNING", "WAITING", "PAUSED", "UNKNOWN"]);

const REASON = { name: "reason", label: "Reason" };
const ACTIONS = [
  {
    verb: "signal",
    call: "SignalWorkflow",
    label: "Signal",
    title: "Send a signal",
    fields: [
      { name: "name", label: "Name", required: true },
      { name: "payload", label: "Payload", kind: "area" },
    ],
    action: "Send",
  },
  {
    verb: "pause",
    call: "PauseWorkflow",
    label: "Pause",
    when: (run) => run.status !== "PAUSED",
    title: "Pause this run?",
    text: "No decision is handed out until it goes on. Activities in flight end as they would.",
    fields: [REASON],
    action: "Pause the run",
  },
  {
    verb: "unpause",
    call: "UnpauseWorkflow",
    label: "Unpause",
    when: (run) => run.status === "PAUSED" || run.status === "UNKNOWN",
    title: "Let this run go on?",
    text: ({ error }) =>
      error?.startsWith("paused")
        ? `It is ${error}.`
        : "A run that met a limit or could not be replayed comes to a stop again if nothing has changed.",
    action: "Unpause the run",
  },
  {
    verb: "cancel",
    call: "CancelWorkflow",
    label: "Cancel",
    title: "Cancel this run?",
    text: "Its code is told and may compensate first; otherwise it ends at once.",
    fields: [
      REASON,
      {
        name: "graceful",
        label: "Tell its code, which may compensate",
        kind: "check",
        value: true,
      },
    ],
    action: "Cancel the run",
    danger: true,
  },
  {
    verb: "terminate",
    call: "TerminateWorkflow",
    label: "Terminate",
    title: "Terminate this run?",
    text: "It ends at once. Its code is not told and cannot compensate.",
    fields: [REASON],
    action: "Terminate the run",
    danger: true,
  },
  {
    verb: "delete",
    call: "DeleteWorkflow",
    label: "Delete",
    closed: true,
    title: "Forget this run?",
    text: "Its history is gone for good. Download it first if somebody may ask for it.",
    fields: [{ name: "all", label: "All runs of this id, not only this one", kind: "check" }],
    action: "Delete the run",
    danger: true,
  },
];

// What is done about a cause that `why` names.
const CURES = new Map([
  ["signal_awaited", ["signal", "Send the signal"]],
  ["signal_other_name", ["signal", "Send the signal"]],
  ["paused", ["unpause", "Let it go on"]],
]);

export class RunActions {
  // `view` is the run's: {api, tell, id, ns, run, refresh()}.
  constructor(view) {
    this.view = view;
    this.element = h("div", { class: "actions", role: "group", "aria-label": "Actions" });
  }

  // What the role may not do is not offered; what does not fit the state of the run neither.
  show(run) {
    const offered = ACTIONS.filter(
      (action) => this.view.api.may(action.call) && applies(action, run),
    );
    const names = offered.map(({ verb }) => verb);
    // A payload that is null may not be seen, and the file holds them all.
    if (run.input !== null) names.push("download");
    reconcile(
      this.element,
      names,
      (name) => name,
      (name) => this.button(name),
      () => "",
    );
  }

  button(name) {
    const properties = { type: "button" };
    if (name === "download") {
      return h("button", { ...properties, onclick: () => this.download() }, "Download .history");
    }
    const action = ACTIONS.find(({ verb }) => verb === name);
    const look = action.danger ? "danger" : undefined;
    return h(
      "button",
      { ...properties, class: look, onclick: () => this.act(action) },
      action.label,
    );
  }

  // The button of what a cause asks for; null where it is not to be had.
  offer(cause) {
    const [verb, label] = CURES.get(cause) ?? [];
    const action = ACTIONS.find((each) => each.verb === verb);
    const { api, run } = this.view;
    if (!action || !run || !api.may(action.call) || !applies(action, run)) return null;
    return h("button", { type: "button", onclick: () => this.act(action) }, label);
  }

  async act(action) {
    const { view } = this;
    // What whoever acts has before their eyes.
    let seen = view.run;
    const submit = async (values, requestId) => {
      const now = await view.refresh();
      const changed = whatChanged(seen, now, action);
      seen = now;
      if (changed) throw new Error(changed + (await this.byWhom(now, changed)));
      await this.send(action, { ...values, request_id: requestId });
    };
    const text = typeof action.text === "function" ? action.text(seen) : action.text;
    await ask({ ...action, subject: view.id, text, fields: fieldsOf(action, seen), submit });
  }

  async send(action, values) {
    const { api, id, run, tell, ns } = this.view;
    const path = workflowPath(id);
    if (action.verb === "delete") {
      const which = values.all ? {} : { run_id: run.run_id };
      const { runs } = await api.delete(path, { ...which, request_id: values.request_id });
      tell(runs === 1 ? "The run is deleted." : `${runs} runs are deleted.`);
      location.hash = link("runs", [], { ns });
      return;
    }
    let refused;
    try {
      await api.post(`${path}/${action.verb}`, { ...values, run_id: run.run_id });
    } catch (error) {
      if (error.status !== 409) throw error;
      refused = error;
    }
    // It is done, or refused, whether or not the run can be read now.
    const now = await this.view.refresh().catch(() => null);
    if (refused && !now) throw refused;
    if (refused) {
      throw new Error(`${refused.message}. Nothing was changed by you: ${stateText(now)}.`);
    }
    tell(now ? outcome(action.verb, values, now) : "It is done; the run cannot be read just now.");
  }

  // Administrators may look it up; for others it stays a somebody.
  async byWhom(run, changed) {
    if (!changed || !this.view.api.may("ListAudit")) return "";
    try {
      const query = { target: run.workflow_id, limit: 1, outcome: "OK" };
      const { entries } = await this.view.api.get("/api/audit", query);
      const [last] = entries;
      return last
        ? ` The audit log names ${last.actor}: ${last.call} at ${localTime(last.at)}.`
        : "";
    } catch {
      return "";
    }
  }

  async download() {
    const { api, id, run, tell } = this.view;
    const query = { run_id: run.run_id, format: "binary" };
    try {
      const content = await api.blob(workflowPath(id, "history"), query);
      const url = URL.createObjectURL(content);
      h("a", { href: url, download: `${run.run_id}.history` }).click();
      // Taken by then: the browser has the bytes as soon as the click is done.
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
      tell(`${run.run_id}.history has ${content.size.toLocaleString("en")} bytes.`);
    } catch (error) {
      tell(`The history was not downloaded: ${error.message}`);
    }
  }
}

// The names that the run waits for are at hand.
function fieldsOf({ verb, fields }, run) {
  if (verb !== "signal") return fields;
  const awaited = run.steps.filter((step) => step.kind === "SIGNAL" && step.status === "SCHEDULED");
  const choices = [...new Set(awaited.map((step) => step.signal_name))];
  const value = choices.length === 1 ? choices[0] : "";
  return fields.map((field) => (field.name === "name" ? { ...field, choices, value } : field));
}

// What somebody else did since `seen`, told to who was about to act; "" when that makes no difference.
// RUNNING and WAITING come and go by themselves.
export function whatChanged(seen, now, action) {
  if (!applies(action, now)) {
    const what = OPEN.has(now.status) ? "changed" : "ended";
    return `Nothing was sent: the run has ${what}, ${stateText(now)}. There is nothing left to ${action.verb}.`;
  }
  if (standsStill(seen) !== standsStill(now) || askedToCancel(seen) !== askedToCancel(now)) {
    return (
      `Nothing was sent yet. Since you looked the run has changed: it was ${seen.status}, and ` +
      `${stateText(now)}. Send it again if you still mean it.`
    );
  }
  return "";
}

function applies({ closed = false, when = () => true }, run) {
  return OPEN.has(run.status) !== closed && when(run);
}

function standsStill(run) {
  return run.status === "PAUSED" || run.status === "UNKNOWN" ? run.status : "";
}

function askedToCancel(run) {
  return run.cancel_requested_at ?? "";
}

export function stateText(run) {
  const why = run.error ? ` (${run.error})` : "";
  const since = run.closed_at ? ` since ${localTime(run.closed_at)}` : "";
  const told = askedToCancel(run)
    ? `, and was asked to cancel at ${localTime(run.cancel_requested_at)}`
    : "";
  return `it is ${run.status}${since}${why}${told}`;
}

// What an action that was accepted came to. The same verb by somebody else a moment before makes
// ours true without any effect: its reason tells.
export function outcome(verb, { reason = "", graceful, name }, now) {
  const theirs = {
    pause: `paused: ${reason}`,
    terminate: reason,
    cancel: reason,
  }[verb];
  const said = graceful ? now.cancel_reason : now.error;
  const isTheirs = {
    pause: now.status === "PAUSED",
    terminate: now.status === "TERMINATED",
    cancel: graceful ? Boolean(now.cancel_requested_at) : now.status === "CANCELLED",
  }[verb];
  if (isTheirs && (said ?? "") !== theirs) {
    const did = { pause: "paused it", terminate: "terminated it", cancel: "cancelled it" }[verb];
    const why = said ? ` (${said})` : "";
    return `Somebody else ${did} a moment before you${why}: your reason is not recorded.`;
  }
  return {
    signal: `The signal ${name} is delivered.`,
    pause: "The run is paused.",
    unpause: "The run goes on.",
    cancel: graceful ? "The run's code will be told." : "The run is cancelled.",
    terminate: "The run is terminated.",
  }[verb];
}
