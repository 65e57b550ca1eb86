// From a run and its events to what the time line draws. Pure: no page, no network.

const OPENING = new Set([
  "StepScheduled",
  "TimerStarted",
  "SignalAwaited",
  "MarkerRecorded",
  "ChildStarted",
]);
const CLOSING = new Set([
  "StepCompleted",
  "StepFailed",
  "StepCancelled",
  "TimerFired",
  "SignalConsumed",
  "ChildCompleted",
  "ChildFailed",
]);

// Each step with start, end and the start of its last attempt as fractions of the whole run.
export function timeline(run, events, nowMs) {
  const opened = new Map();
  const closed = new Map();
  for (const event of events) {
    if (OPENING.has(event.type)) opened.set(event.sequence, event);
    if (CLOSING.has(event.type)) closed.set(event.sequence, event);
    // A marker is there at once and for ever.
    if (event.type === "MarkerRecorded") closed.set(event.sequence, event);
  }
  const start = Date.parse(run.started_at);
  const last = events.length ? Date.parse(events[events.length - 1].time) : start;
  const end = run.closed_at ? Date.parse(run.closed_at) : Math.max(last, nowMs);
  const length = Math.max(end - start, 1);
  const at = (ms) => Math.min(Math.max((ms - start) / length, 0), 1);
  const steps = run.steps.map((step) => {
    const from = timeOf(opened.get(step.sequence)) ?? start;
    const closing = closed.get(step.sequence);
    const to = timeOf(closing) ?? end;
    const attempt = attemptStart(closing);
    return {
      ...step,
      from: at(from),
      to: at(to),
      attempt: attempt === undefined ? undefined : at(Math.max(attempt, from)),
      took: to - from,
      waited: attempt === undefined ? undefined : Math.max(attempt - from, 0),
      opening: opened.get(step.sequence),
      closing,
      open: step.status === "SCHEDULED",
    };
  });
  return { steps, length };
}

// The instants to write under the time line: round ones, at most five.
export function ticks(lengthMs) {
  const wanted = lengthMs / 4;
  const unit = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map((each) => each * unit).find((each) => each >= wanted);
  const found = [];
  for (let at = 0; at <= lengthMs; at += step) found.push(at);
  return found;
}

function timeOf(event) {
  return event && Date.parse(event.time);
}

function attemptStart(event) {
  if (event?.started_at) return Date.parse(event.started_at);
  return event?.started_ms || undefined;
}
