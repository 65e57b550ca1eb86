// One run: what it is, why it is where it is, its steps over time, what is pending, its family, its
// history, and what can be done to it.

import { OPEN, RunActions } from "./actions.js";
import { workflowPath } from "./api.js";
import { now } from "./clock.js";
import { bdi, duration, h, localTime, payload, pill, reconcile, setText, table } from "./dom.js";
import { factElement, has, pick } from "./facts.js";
import { FamilyView } from "./family.js";
import { HistoryView } from "./history.js";
import { Pace } from "./pace.js";
import { link } from "./routes.js";
import { runLink } from "./runs.js";
import { timeline } from "./timeline.js";
import { Weave } from "./weave.js";
import { offerWay, whyButton, WhyPanel } from "./why.js";

// A closed run changes no more, but may be deleted.
const CLOSED_MS = 10_000;
const WHY_MS = 3000;
// A long history is read in pieces, and what is there already is shown.
const READING_MS = 500;

export class RunView {
  constructor(shell, { path: [id, runId = ""], query: { ns = "" } }) {
    this.shell = shell;
    this.api = shell.api.within(ns);
    this.tell = shell.tell;
    this.id = id;
    this.runId = runId;
    this.ns = ns;
    this.events = [];
    this.asking = new Pace();
    this.whyPace = new Pace(WHY_MS);
    this.mayAskWhy = this.api.may("WhyRun");
    this.actions = new RunActions(this);
    const subject = { kind: "run", workflow_id: id, run_id: runId };
    this.why = new WhyPanel(
      this.api,
      subject,
      (cause, about, asked) =>
        (about === id && this.actions.offer(cause)) || offerWay(cause, about, asked),
    );
    this.weave = new Weave(this);
    this.history = new HistoryView();
    this.family = new FamilyView(this.api, ns);
    this.family.onTurn = () => this.family.update(this.run);
    this.status = h("span", { role: "status" });
    this.facts = h("dl", { class: "facts" });
    this.pending = h("tbody");
    this.pendingPart = part(
      "Pending",
      table(
        "Pending",
        ["What", "Step", "Waits for", "Since", "Until", "Reason"],
        this.pending,
        "pending",
      ),
    );
    this.signals = h("tbody");
    this.signalsPart = part(
      "Signals",
      table("Signals", ["Name", "Payload", "Received", "Taken by"], this.signals),
    );
    this.whyPart = part("Why?", this.why.element, "section");
    this.loaded = h(
      "div",
      { hidden: true },
      h(
        "header",
        { class: "run-head" },
        h("h1", { class: "id" }, bdi(id)),
        this.status,
        this.actions.element,
      ),
      this.facts,
      this.whyPart,
      h("h2", {}, "Steps"),
      this.weave.element,
      this.pendingPart,
      this.signalsPart,
      this.family.element,
      this.history.element,
    );
    this.gone = h("p", { class: "banner", role: "alert", hidden: true });
    const back = h("a", { href: link("runs", [], { ns }) }, "← All runs");
    this.element = h(
      "section",
      { "aria-label": "Run", class: "run" },
      h("p", {}, back),
      this.gone,
      this.loaded,
    );
  }

  get title() {
    return this.id;
  }

  async update() {
    const closed = this.run && !OPEN.has(this.run.status);
    const key = closed ? "closed" : "open";
    this.asking.leastMs = closed ? CLOSED_MS : 0;
    await this.asking
      .ask(key, () => this.refresh())
      .catch((error) => {
        // Its own sentence stands above it already.
        if (this.gone.hidden) throw error;
      });
    if (!this.gone.hidden) return;
    if (this.run && this.events.length < this.run.history_length) await this.readOn();
    if (this.run) await Promise.all([this.family.update(this.run), this.askWhy()]);
  }

  // The run as it is now, on the screen and for whoever is about to do something to it.
  async refresh() {
    let run;
    try {
      run = await this.api.get(workflowPath(this.id), { run_id: this.runId });
    } catch (error) {
      if (error.reason === "WORKFLOW_NOT_FOUND" && this.run) this.showGone();
      throw error;
    }
    // The address may name no run: then it is the newest, and stays that one.
    this.runId = run.run_id;
    this.why.subject.run_id = run.run_id;
    this.run = run;
    this.gone.hidden = true;
    await this.readOn();
    return run;
  }

  // Only what is new: histories are append-only.
  async readOn() {
    const { run, events } = this;
    const until = performance.now() + READING_MS;
    const path = workflowPath(this.id, "history");
    while (events.length < run.history_length) {
      const page = await this.api.get(path, { run_id: this.runId, from: events.length + 1 });
      // Two updates may overlap after an action: each event is taken once.
      for (const event of page.events) {
        if (event.event_id === events.length + 1) events.push(event);
      }
      if (!page.events.length || performance.now() > until) break;
    }
    this.show(run);
  }

  show(run) {
    this.loaded.hidden = false;
    reconcile(this.status, [run.status], (status) => status, pill);
    this.actions.show(run);
    reconcile(this.facts, facts(run, this.ns), (fact) => fact.name, factElement);
    this.weave.show(timeline(run, this.events, now()));
    const pending = run.waiting_on ?? [];
    reconcile(
      this.pending,
      pending,
      (wait) => wait.sequence,
      (wait) => this.pendingRow(wait),
    );
    this.pendingPart.hidden = !pending.length;
    reconcile(
      this.signals,
      run.signals.map((signal, at) => ({ ...keyed(signal, at), closed: Boolean(run.closed_at) })),
      (signal) => signal.key,
      (signal) => signalRow(signal, signal.closed),
    );
    this.signalsPart.hidden = !run.signals.length;
    this.history.show(this.events, run.history_length);
  }

  // What is fine by itself needs no reason.
  async askWhy() {
    const { run } = this;
    this.whyPart.hidden = !this.mayAskWhy || ["COMPLETED", "CONTINUED_AS_NEW"].includes(run.status);
    if (this.whyPart.hidden) return;
    const key = JSON.stringify([run.status, run.history_length, run.waiting_on]);
    if (OPEN.has(run.status) || this.whyPace.key !== key || !this.why.isAnswered) {
      await this.whyPace.ask(key, () => this.why.update());
    }
    // What goes on by itself has another reason each second: a chain would make the page jump.
    const isBrief = run.status === "RUNNING" && !this.why.isProblem;
    this.whyPart.classList.toggle("brief", isBrief);
  }

  showEvents(sequence) {
    this.history.showStep(sequence);
  }

  showGone() {
    setText(
      this.gone,
      "This run has been deleted meanwhile. What stands below is the last that was seen of it.",
    );
    this.gone.hidden = false;
    this.actions.element.hidden = true;
  }

  pendingRow({ kind, step_name: name, sequence, detail, since, until }) {
    const what = sequence ? kind.toLowerCase() : "decision";
    const about = sequence ? `step ${sequence}, ${name}` : "the decision";
    const subject = { workflow_id: this.id, run_id: this.runId };
    const question = sequence
      ? whyButton(this.api, { kind: "task", step: sequence, ...subject }, about)
      : whyButton(this.api, { kind: "run", ...subject }, about);
    return h(
      "tr",
      {},
      h("td", {}, what),
      h("td", {}, sequence ? [`${sequence} `, bdi(name)] : ""),
      h("td", {}, bdi(detail)),
      h("td", { class: "moment", title: since }, localTime(since)),
      h("td", { class: "moment", title: until }, until ? localTime(until) : ""),
      h("td", {}, this.mayAskWhy ? question : ""),
    );
  }
}

// A table is a region by itself, under the same name; other parts are made one.
function part(title, content, tag = "div") {
  const label = tag === "section" ? title : undefined;
  return h(tag, { "aria-label": label, hidden: true }, h("h2", {}, title), content);
}

function keyed(signal, index) {
  return { ...signal, key: signal.event_id ?? `new ${index}` };
}

function facts(run, namespace) {
  const started = localTime(run.started_at);
  const took = duration(Date.parse(run.closed_at) - Date.parse(run.started_at));
  const time = run.closed_at ? `${started} – ${localTime(run.closed_at)} (${took})` : started;
  const askedAt = run.cancel_requested_at;
  const asked = askedAt && `${localTime(askedAt)} ${run.cancel_reason}`;
  const { parent } = run;
  return [
    { name: "type", text: run.workflow_type },
    { name: "run", text: run.run_id, mono: true },
    { name: "namespace", text: namespace },
    { name: run.closed_at ? "time" : "started", text: time },
    { name: "queue", text: run.task_queue },
    { name: "time limit", text: duration(run.execution_timeout_ms) },
    parent
      ? {
          name: "child of",
          text: `${parent.workflow_id}, step ${parent.sequence}`,
          href: runLink(parent, namespace),
        }
      : { name: "child of" },
    { name: "cancel asked", text: asked },
    { name: run.status === "PAUSED" ? "reason" : "error", text: errorText(run), error: true },
    { name: "attributes", text: plain(run.search_attributes), mono: true },
    { name: "memo", text: plain(run.memo), mono: true },
    { name: "trace", text: run.traceparent, mono: true },
    { name: "input", holder: pick(run, "input"), field: "input" },
    has(run, "output")
      ? { name: "output", holder: pick(run, "output"), field: "output" }
      : { name: "output" },
  ].filter((fact) => fact.text || fact.holder);
}

function errorText({ error, error_type: type }) {
  return [type, error].filter(Boolean).join(": ");
}

// What an object of JSON says, empty when there is nothing in it.
function plain(object) {
  return Object.keys(object ?? {}).length ? JSON.stringify(object) : "";
}

function signalRow(signal, closed) {
  const nobody = closed ? "nobody" : "nobody yet";
  const taken = signal.taken_by ? `step ${signal.taken_by}` : nobody;
  return h(
    "tr",
    {},
    h("td", {}, bdi(signal.name)),
    h("td", {}, payload(signal, "payload")),
    h("td", { class: "moment", title: signal.received_at }, localTime(signal.received_at)),
    h("td", {}, taken),
  );
}
