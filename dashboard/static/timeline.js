// From a run and its events to what the time line draws. Pure: no page, no network.

const OPENING = new Set([
  "StepScheduled",
  "TimerStarted",
  "SignalAwaited",
  "MarkerRecorded",
  "ChildStarted",
]);

// Each step with its beginning, its end and the start of its last attempt as fractions of the run,
// and with the events that opened and closed it.
export function timeline(run, events, nowMs) {
  const opened = new Map();
  for (const event of events) {
    if (OPENING.has(event.type)) opened.set(event.sequence, event);
  }
  const start = Date.parse(run.started_at);
  const latest = Math.max(start, Date.parse(run.updated_at));
  // This clock may be behind the cluster's: nothing is drawn as over before it began.
  const end = run.closed_at ? Date.parse(run.closed_at) : Math.max(latest, nowMs);
  const length = Math.max(end - start, 1);
  const at = (ms) => Math.min(Math.max((ms - start) / length, 0), 1);
  const steps = run.steps.map((step) => {
    const from = Date.parse(step.scheduled_at);
    const to = step.resolved_at ? Date.parse(step.resolved_at) : end;
    const closing = step.resolved_event_id ? events[step.resolved_event_id - 1] : undefined;
    const attemptAt = closing?.started_at ?? step.started_at;
    const attempt = attemptAt && Math.max(Date.parse(attemptAt), from);
    return {
      ...step,
      from: at(from),
      to: at(to),
      attempt: attempt && at(attempt),
      took: to - from,
      waited: attempt && attempt - from,
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
