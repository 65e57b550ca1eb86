// One run: what it is, its steps over time, its signals, its history, and what can be done to it.

import { workflowPath } from "./api.js";
import { ask } from "./dialogs.js";
import { count, duration, h, localTime, payload, pill, reconcile, roundDuration } from "./dom.js";
import { link } from "./routes.js";
import { runLink } from "./runs.js";
import { ticks, timeline } from "./timeline.js";

const OPEN = new Set(["RUNNING", "WAITING", "PAUSED", "UNKNOWN"]);
const HISTORY_SHOWN = 200;

export class RunView {
  constructor({ api }, { path: [id, runId = ""], query: { ns = "" } }) {
    this.api = api;
    this.id = id;
    this.runId = runId;
    this.ns = ns;
    this.events = [];
    this.expanded = new Set();
    this.closed = false;
    this.allEvents = false;
    this.head = h("header", { class: "run-head" });
    this.facts = h("dl", { class: "facts" });
    this.axis = h("div", { class: "axis", "aria-hidden": "true" });
    this.steps = h("ol", { class: "steps" });
    this.noSteps = h("p", { class: "quiet" }, "No step yet.");
    this.signals = h("tbody");
    this.noSignals = h("p", { class: "quiet" }, "No signal yet.");
    this.eventRows = h("tbody");
    this.historyTitle = h("summary", {}, "History");
    this.moreEvents = h("button", { type: "button", class: "link", hidden: true }, "show all");
    this.moreEvents.addEventListener("click", () => {
      this.allEvents = true;
      this.showHistory();
    });
    this.loaded = h(
      "div",
      { hidden: true },
      this.head,
      this.facts,
      h("h3", {}, "Steps"),
      h("div", { class: "timeline" }, this.steps, this.noSteps, this.axis),
      h("h3", {}, "Signals"),
      this.noSignals,
      table(["Name", "Payload", "Taken by"], this.signals),
      h(
        "details",
        { class: "history" },
        this.historyTitle,
        table(["#", "Time", "Event", "Details"], this.eventRows),
        this.moreEvents,
      ),
    );
    const back = h("a", { href: link("runs", [], { ns }) }, "← All runs");
    this.element = h("section", { "aria-label": "Run" }, h("p", {}, back), this.loaded);
  }

  get title() {
    return this.id;
  }

  async update() {
    // A closed run never changes again.
    if (this.closed) return;
    const query = { run_id: this.runId };
    const path = workflowPath(this.id);
    const run = await this.api.get(path, query);
    // Only what is new: histories are append-only.
    while (this.events.length < run.history_length) {
      const from = this.events.length + 1;
      const page = await this.api.get(`${path}/history`, { ...query, from });
      if (!page.events.length) break;
      // Two updates may overlap after an action: each event is taken once.
      for (const event of page.events) {
        if (event.event_id === this.events.length + 1) this.events.push(event);
      }
    }
    this.show(run);
    this.closed = !OPEN.has(run.status);
  }

  show(run) {
    this.loaded.hidden = false;
    reconcile(this.head, [heading(run)], () => "head", (it) => this.headElement(it));
    reconcile(this.facts, facts(run, this.ns), (fact) => fact.name, factElement);
    const { steps, length } = timeline(run, this.events, Date.now());
    reconcile(this.steps, steps, sequenceOf, (step) => this.stepElement(step), stepMemo);
    // Time goes on for every bar; what the steps say does not.
    steps.forEach((step, index) => this.steps.children[index].place(step));
    reconcile(this.axis, steps.length ? ticks(length) : [], (ms) => ms, (ms) => tick(ms, length));
    this.noSteps.hidden = steps.length > 0;
    reconcile(this.signals, run.signals.map(keyed), (signal) => signal.key, signalRow);
    this.noSignals.hidden = run.signals.length > 0;
    this.signals.parentElement.hidden = run.signals.length === 0;
    this.showHistory();
  }

  showHistory() {
    this.historyTitle.textContent = `History · ${count(this.events.length)} events`;
    const hidden = this.allEvents ? 0 : Math.max(0, this.events.length - HISTORY_SHOWN);
    this.moreEvents.hidden = hidden === 0;
    this.moreEvents.textContent = `show ${count(hidden)} earlier events`;
    const shown = this.events.slice(hidden);
    reconcile(this.eventRows, shown, (event) => event.event_id, eventRow, () => "");
  }

  headElement(run) {
    const open = OPEN.has(run.status);
    return h(
      "div",
      {},
      h("h1", { class: "id" }, run.workflow_id),
      pill(run.status),
      h(
        "div",
        { class: "actions" },
        action("Signal", open, () => this.signal()),
        run.status === "PAUSED"
          ? action("Unpause", open, () => this.unpause())
          : action("Pause", open, () => this.pause()),
        action("Cancel", open, () => this.cancel()),
        action("Terminate", open, () => this.terminate(), "danger"),
      ),
    );
  }

  stepElement(step) {
    const kind = step.kind.toLowerCase();
    const name = step.step_name || step.signal_name || kind;
    const bar = h("span", { class: `bar ${step.status.toLowerCase()} ${kind}` });
    const work = h("span", { class: "work", hidden: step.attempt === undefined });
    const track = h("span", { class: "track" }, bar, work);
    const details = h(
      "details",
      { open: this.expanded.has(step.sequence) },
      h(
        "summary",
        {},
        h("span", { class: "step-name" }, h("b", {}, step.sequence), " ", name),
        track,
        h("span", { class: "step-state" }, stepState(step)),
      ),
      h("dl", { class: "facts" }, stepFacts(step, this.ns).map(factElement)),
    );
    details.addEventListener("toggle", () => {
      if (details.open) this.expanded.add(step.sequence);
      else this.expanded.delete(step.sequence);
    });
    const item = h("li", {}, details);
    item.place = ({ from, to, attempt }) => {
      place(bar, from, to);
      if (attempt !== undefined) place(work, attempt, to);
    };
    return item;
  }

  signal() {
    return this.act({
      title: "Send a signal",
      fields: [
        { name: "name", label: "Name", required: true },
        { name: "payload", label: "Payload", kind: "area" },
      ],
      action: "Send",
      verb: "signal",
    });
  }

  cancel() {
    return this.act({
      title: "Cancel this run?",
      text: "Its code is told and may compensate first; otherwise it ends at once.",
      fields: [
        { name: "reason", label: "Reason" },
        { name: "graceful", label: "Tell its code", kind: "check", value: true },
      ],
      action: "Cancel the run",
      danger: true,
      verb: "cancel",
    });
  }

  pause() {
    return this.act({
      title: "Pause this run?",
      text: "No decision is handed out until it goes on. Activities in flight end as they would.",
      fields: [{ name: "reason", label: "Reason" }],
      action: "Pause the run",
      verb: "pause",
    });
  }

  unpause() {
    return this.act({
      title: "Let this run go on?",
      action: "Unpause the run",
      verb: "unpause",
    });
  }

  terminate() {
    return this.act({
      title: "Terminate this run?",
      text: "It ends at once. Its code is not told and cannot compensate.",
      fields: [{ name: "reason", label: "Reason" }],
      action: "Terminate the run",
      danger: true,
      verb: "terminate",
    });
  }

  async act({ verb, ...dialog }) {
    const path = workflowPath(this.id, verb);
    const submit = (body) => this.api.post(path, { ...body, run_id: this.runId || undefined });
    if (await ask({ ...dialog, submit })) await this.update();
  }
}

// What the head shows, so that it is built again only when that changes.
function heading({ workflow_id, status }) {
  return { workflow_id, status };
}

function sequenceOf(step) {
  return step.sequence;
}

// What of a step can change while the run goes on.
function stepMemo({ status, attempts, last_error, started_at, next_attempt_at, closing, run_id }) {
  const event = closing?.event_id;
  return JSON.stringify([status, attempts, last_error, started_at, next_attempt_at, event, run_id]);
}

function keyed(signal, index) {
  return { ...signal, key: signal.event_id ?? index };
}

function action(label, enabled, onclick, kind) {
  return h("button", { type: "button", class: kind, disabled: !enabled, onclick }, label);
}

function facts(run, namespace) {
  const started = localTime(run.started_at);
  const took = duration(Date.parse(run.closed_at) - Date.parse(run.started_at));
  const time = run.closed_at ? `${started} – ${localTime(run.closed_at)} (${took})` : started;
  const waiting = (run.waiting_on ?? []).map(waitingText).join(", ");
  const askedAt = run.cancel_requested_at;
  const asked = askedAt && `${localTime(askedAt)} ${run.cancel_reason}`;
  const link = (runId) => runId && runLink({ ...run, run_id: runId }, namespace);
  const { parent, continued_from_run_id: before, continued_to_run_id: after } = run;
  return [
    { name: "type", text: run.workflow_type },
    { name: "run", text: run.run_id, mono: true },
    { name: run.closed_at ? "time" : "started", text: time },
    { name: "queue", text: run.task_queue },
    parent
      ? {
          name: "child of",
          text: `${parent.workflow_id}, step ${parent.sequence}`,
          href: runLink(parent, namespace),
        }
      : { name: "child of" },
    { name: "continued from", text: before, href: link(before), mono: true },
    { name: "continued to", text: after, href: link(after), mono: true },
    { name: "waiting on", text: waiting },
    { name: "cancel asked", text: asked },
    { name: run.status === "PAUSED" ? "reason" : "error", text: run.error, error: true },
    { name: "attributes", text: plain(run.search_attributes), mono: true },
    { name: "memo", text: plain(run.memo), mono: true },
    { name: "input", holder: pick(run, "input"), field: "input" },
    run.output === undefined && run.output_base64 === undefined
      ? { name: "output" }
      : { name: "output", holder: pick(run, "output"), field: "output" },
  ].filter((fact) => fact.text || fact.holder);
}

// What an object of JSON says, empty when there is nothing in it.
function plain(object) {
  return Object.keys(object ?? {}).length ? JSON.stringify(object) : "";
}

function stepFacts(step, namespace) {
  const opening = step.opening ?? {};
  const closing = step.closing ?? {};
  const all = [
    { name: "kind", text: step.kind },
    { name: "scheduled", text: localTime(step.scheduled_at) },
    { name: "took", text: step.open ? "" : duration(step.took) },
    { name: "waited", text: duration(step.waited) },
    { name: "attempts", text: step.attempts ? String(step.attempts) : "" },
    { name: "next attempt", text: step.next_attempt_at && localTime(step.next_attempt_at) },
    { name: "worker", text: closing.worker_id ?? step.worker_id },
    { name: "handed out by", text: closing.node ?? step.node },
    { name: "queue", text: step.task_queue },
    { name: "delay", text: duration(opening.delay_ms) },
    { name: "signal", text: step.signal_name },
    { name: "marker", text: step.marker },
    step.kind === "CHILD" && {
      name: "child",
      text: `${step.workflow_type} ${step.workflow_id}`,
      href: runLink(step, namespace),
    },
    { name: "parent closes", text: step.parent_close_policy },
    has(opening, "data") && { name: "data", holder: pick(opening, "data"), field: "data" },
    { name: "last error", text: step.open ? step.last_error : "", error: true },
    { name: "error", text: [step.error_type, step.error].filter(Boolean).join(": "), error: true },
    has(opening, "input") && { name: "input", holder: pick(opening, "input"), field: "input" },
    step.kind !== "MARKER" &&
      has(step, "output") && { name: "output", holder: pick(step, "output"), field: "output" },
  ];
  return all.filter((fact) => fact && (fact.text || fact.holder));
}

function factElement(fact) {
  return h("div", {}, h("dt", {}, fact.name), h("dd", {}, factValue(fact)));
}

function factValue(fact) {
  if (fact.holder) return payload(fact.holder, fact.field);
  const look = fact.error ? "error" : fact.mono ? "mono" : null;
  return fact.href
    ? h("a", { class: look, href: fact.href }, fact.text)
    : h("span", { class: look }, fact.text);
}

function stepState(step) {
  const tries = step.attempts > 1 ? ` ×${step.attempts}` : "";
  if (step.kind === "MARKER") return step.marker;
  if (step.open) return `${openState(step)}${tries}`;
  if (step.status === "COMPLETED") return `${duration(step.took)}${tries}`;
  return `${step.status.toLowerCase()}${tries}`;
}

function openState(step) {
  if (step.kind === "TIMER") return "sleeping";
  if (step.kind === "SIGNAL") return "waiting";
  if (step.kind === "CHILD") return step.run_id ? "open" : "starting";
  if (step.next_attempt_at) return "retrying";
  return step.started_at ? "running" : "queued";
}

function waitingText({ step_name: name, detail, until }) {
  const due = until ? `until ${localTime(until)}` : "";
  return [name, detail, due].filter(Boolean).join(" ");
}

function place(bar, from, to) {
  bar.style.left = `${from * 100}%`;
  bar.style.width = `${Math.max(to - from, 0) * 100}%`;
}

function tick(ms, length) {
  const mark = h("span", {}, ms === 0 ? "0" : roundDuration(ms));
  mark.style.left = `${(ms / length) * 100}%`;
  return mark;
}

function has(holder, name) {
  return holder[name] !== undefined || holder[`${name}_base64`] !== undefined;
}

function pick(holder, name) {
  return { [name]: holder[name], [`${name}_base64`]: holder[`${name}_base64`] };
}

function signalRow(signal) {
  const taken = signal.taken_by ? `step ${signal.taken_by}` : "not yet";
  return h(
    "tr",
    {},
    h("td", {}, signal.name),
    h("td", {}, payload(signal, "payload")),
    h("td", {}, taken),
  );
}

function eventRow({ event_id, time, type, ...rest }) {
  const details = Object.entries(rest)
    .filter(([, value]) => value !== "" && value !== 0 && value !== null)
    .map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join("  ");
  return h(
    "tr",
    {},
    h("td", { class: "number" }, event_id),
    h("td", { class: "mono" }, time),
    h("td", {}, type),
    h("td", { class: "details" }, details.length > 600 ? `${details.slice(0, 600)}…` : details),
  );
}

function table(columns, body) {
  const head = columns.map((name) => h("th", { scope: "col" }, name));
  return h("table", {}, h("thead", {}, h("tr", {}, head)), body);
}
