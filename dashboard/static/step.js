// One step: its row in the time line, and what is known of it when that is opened.

import { attemptsOf, isOut } from "./attempts.js";
import { bdi, count, duration, h, localTime, reconcile, setText, table } from "./dom.js";
import { factElement, has, pick as taken } from "./facts.js";
import { runLink } from "./runs.js";
import { overlapping, place } from "./timeline.js";
import { whyButton } from "./why.js";

const NAMED_OVERLAPS = 5;

// Built once for each step; what it shows moves on in place, so that nothing loses the focus.
export class StepRow {
  constructor(context) {
    this.context = context;
    this.name = h("span", { class: "step-name" });
    this.track = h("span", { class: "track", "aria-hidden": "true" });
    this.state = h("span", { class: "step-state" });
    this.body = h("div", { class: "step-body" });
    const summary = h("summary", {}, this.name, this.track, this.state);
    this.details = h("details", {}, summary, this.body);
    this.details.addEventListener("toggle", () => this.showBody());
    this.asking = h("span", { class: "asking" });
    this.element = h("li", {}, this.details, this.asking);
  }

  show(pick, shown, cloth) {
    this.pick = pick;
    this.cloth = cloth;
    reconcile(
      this.name,
      [nameOf(pick)],
      (name) => name,
      (name) => this.nameElement(name),
    );
    this.element.className = lookOf(pick);
    setText(this.state, stateOf(pick));
    this.state.title = this.state.textContent;
    this.showTrack(pick, shown);
    const asked = pick.open && this.context.mayAskWhy ? [pick] : [];
    reconcile(
      this.asking,
      asked,
      sequenceOf,
      (step) => this.whyButton(step),
      () => "",
    );
    this.showBody();
  }

  nameElement(name) {
    return h("span", {}, h("b", {}, this.pick.sequence), " ", bdi(name));
  }

  showTrack({ stretches }, shown) {
    const keyed = stretches.map((each, at) => ({ ...each, key: `${at} ${each.what}` }));
    reconcile(
      this.track,
      keyed,
      ({ key }) => key,
      ({ what }) => h("span", { class: `pick ${what}` }),
      () => "",
    );
    keyed.forEach(({ from, to }, at) => {
      const bar = this.track.children[at];
      bar.hidden = to < shown.from || from > shown.to;
      lay(bar, place(from, shown), place(to, shown));
    });
  }

  showBody() {
    if (!this.details.open) return;
    const { pick, context } = this;
    const attempts = attemptsOf(pick);
    const facts = stepFacts(pick, this.cloth.picks, context);
    const parts = [
      { part: "facts", facts },
      { part: "attempts", attempts },
      { part: "events", ids: eventsOf(pick) },
    ];
    const shown = parts.filter(
      ({ part, ids }) => part === "facts" || (part === "attempts" ? attempts : ids).length > 0,
    );
    reconcile(
      this.body,
      shown,
      ({ part }) => part,
      (each) => this.part(each),
    );
  }

  part({ part, facts, attempts, ids }) {
    if (part === "facts") return h("dl", { class: "facts" }, facts.map(factElement));
    if (part === "attempts") return attemptsTable(attempts);
    const look = () => this.context.showEvents(this.pick.sequence);
    const label = `${ids.length > 1 ? "events" : "event"} ${ids.join(" and ")} in the history`;
    return h("p", {}, h("button", { type: "button", class: "link", onclick: look }, label));
  }

  whyButton(step) {
    const { api, run } = this.context;
    const subject = {
      kind: "task",
      workflow_id: run.workflow_id,
      run_id: run.run_id,
      step: step.sequence,
    };
    return whyButton(api, subject, `step ${step.sequence}, ${nameOf(step)}`);
  }
}

export function lay(element, from, to) {
  element.style.left = `${from * 100}%`;
  element.style.width = `${Math.max(to - from, 0) * 100}%`;
}

function sequenceOf(step) {
  return step.sequence;
}

export function nameOf(step) {
  return step.step_name || step.signal_name || step.kind.toLowerCase();
}

function lookOf(pick) {
  return `${pick.open ? "open" : pick.status.toLowerCase()} ${pick.kind.toLowerCase()}`;
}

function eventsOf({ opening, closing }) {
  return [...new Set([opening?.event_id, closing?.event_id])].filter(Boolean);
}

// What a row says at its end: what it waits for, how long it took, how it failed.
export function stateOf(pick) {
  if (pick.kind === "MARKER") return pick.marker;
  if (pick.open) return openState(pick);
  const tries = pick.attempts > 1 ? ` in ${pick.attempts} attempts` : "";
  if (pick.status === "COMPLETED") return `${duration(pick.took)}${tries}`;
  const error = [pick.error_type, pick.error].filter(Boolean).join(": ");
  return `${pick.status.toLowerCase()}${tries}${error ? `: ${error}` : ""}`;
}

function openState(pick) {
  const { kind, attempts, node, worker_id: worker } = pick;
  if (kind === "TIMER") return `until ${localTime(pick.fire_at)}`;
  if (kind === "SIGNAL") return `waits for signal ${pick.signal_name}`;
  if (kind === "CHILD")
    return pick.run_id ? `child ${pick.workflow_id} open` : "child not started yet";
  if (pick.next_attempt_at) return `attempt ${attempts + 1} at ${localTime(pick.next_attempt_at)}`;
  if (!isOut(pick)) return `queued on ${pick.task_queue}`;
  return `attempt ${attempts} with ${worker || "a worker"}${node ? ` by ${node}` : ""}`;
}

function stepFacts(step, picks, { events, ns }) {
  const opening = step.opening ?? {};
  const closing = step.closing ?? {};
  const signal = events[(closing.signal_event_id ?? 0) - 1];
  const retry = opening.retry_policy;
  const all = [
    { name: "kind", text: step.kind.toLowerCase() },
    { name: "scheduled", text: localTime(step.scheduled_at) },
    { name: "took", text: step.open ? "" : duration(step.took) },
    { name: "waited", text: duration(step.waited) },
    { name: "at the same time", text: overlapText(step, picks) },
    { name: "next attempt", text: step.next_attempt_at && localTime(step.next_attempt_at) },
    { name: "retries", text: retry && retryText(retry) },
    { name: "queue", text: step.task_queue },
    ...["start_to_close", "schedule_to_start", "schedule_to_close"].map((name) => ({
      name: name.replaceAll("_", " "),
      text: opening[`${name}_timeout_ms`] ? duration(opening[`${name}_timeout_ms`]) : "",
    })),
    { name: "delay", text: duration(opening.delay_ms) },
    { name: "fires", text: step.open && step.fire_at ? localTime(step.fire_at) : "" },
    { name: "signal", text: step.signal_name },
    { name: "took", key: "signal taken", text: signal && signalText(signal, step) },
    { name: "marker", text: step.marker },
    step.kind === "CHILD" && {
      name: "child",
      text: `${step.workflow_type} ${step.workflow_id}`,
      href: runLink(step, ns),
    },
    { name: "parent closes", text: step.parent_close_policy },
    has(opening, "data") && { name: "data", holder: taken(opening, "data"), field: "data" },
    { name: "last error", text: step.open ? step.last_error : "", error: true },
    { name: "error", text: [step.error_type, step.error].filter(Boolean).join(": "), error: true },
    { name: "final", text: step.non_retryable ? "an error that is not retried" : "" },
    { name: "reason", text: closing.reason },
    has(opening, "input") && { name: "input", holder: taken(opening, "input"), field: "input" },
    step.kind !== "MARKER" &&
      has(step, "output") && { name: "output", holder: taken(step, "output"), field: "output" },
  ];
  return all.filter((fact) => fact && (fact.text || fact.holder));
}

function overlapText(step, picks) {
  const others = overlapping(step, picks);
  if (!others.length) return "";
  const named = others.slice(0, NAMED_OVERLAPS).map((each) => `${each.sequence} ${nameOf(each)}`);
  const more = others.length - named.length;
  return named.join(", ") + (more > 0 ? ` and ${count(more)} more` : "");
}

function retryText({ max_attempts: most, initial_backoff_ms: first, max_backoff_ms: cap }) {
  if (most === 1) return "none";
  const attempts = most ? `up to ${count(most)} attempts` : "without end";
  return `${attempts}, after ${duration(first)} at first${cap ? `, ${duration(cap)} at most` : ""}`;
}

function signalText(signal, step) {
  const early = Date.parse(signal.time) < step.from ? ", before it was awaited" : "";
  return `the signal of event ${signal.event_id}, received ${localTime(signal.time)}${early}`;
}

function attemptsTable(attempts) {
  const body = h("tbody", {}, attempts.map(attemptRow));
  return table(
    "Attempts",
    ["Attempt", "Outcome", "Worker", "Node", "Began", "Took"],
    body,
    "attempts",
  );
}

function attemptRow(row) {
  if (row.missing) {
    const many = row.missing === 1 ? "one attempt" : `${count(row.missing)} attempts`;
    const text = `${many} that this node did not see, or that was too long ago`;
    return h("tr", {}, h("td", { colspan: 6, class: "quiet" }, text));
  }
  const { attempt, outcome, error, worker_id: worker, node, started_at: began, took } = row;
  return h(
    "tr",
    {},
    h("td", {}, attempt),
    h("td", {}, outcome, error ? h("div", { class: "error" }, error) : null),
    h("td", {}, bdi(worker ?? "")),
    h("td", {}, bdi(node ?? "")),
    h("td", { title: began }, began ? localTime(began) : ""),
    h("td", {}, duration(took)),
  );
}
