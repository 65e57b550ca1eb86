// From a run and its events to what the time line draws. Pure: no page, no network.
//
// Time is the warp: equally far threads, each a round unit. A step is a pick, laid across them from
// its beginning to its end in stretches: what it waited, what it was at work.

import { isOut } from "./attempts.js";

const MARKS = new Map([
  ["SignalReceived", "signal"],
  ["WorkflowCancelRequested", "cancel"],
]);
const WARP_THREADS = 48;
const MOST_LANES = 24;
// Round for people: decimal below the minute, then as clocks count.
const UNITS_MS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000],
  ...[1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720].map((minutes) => minutes * 60_000),
  ...[1, 2, 7, 14, 30, 60, 90, 180, 365].map((days) => days * 86_400_000),
];

// The picks of a run in the order of their sequences, when it began and when it ended or is now.
export function timeline(run, events, nowMs) {
  const opened = new Map();
  for (const event of events) {
    if (event.sequence && !opened.has(event.sequence)) opened.set(event.sequence, event);
  }
  const start = Date.parse(run.started_at);
  const latest = Math.max(start, Date.parse(run.updated_at));
  // This clock may be behind the cluster's: nothing is drawn as over before it began.
  const now = run.closed_at ? Date.parse(run.closed_at) : Math.max(latest, nowMs);
  const end = Math.max(now, start + 1);
  const picks = run.steps.map((step) => {
    const closing = step.resolved_event_id ? events[step.resolved_event_id - 1] : undefined;
    const from = Date.parse(step.scheduled_at);
    const to = Math.max(from, step.resolved_at ? Date.parse(step.resolved_at) : now);
    const attemptAt = closing?.started_at ?? step.started_at;
    const attempt = attemptAt ? Math.min(Math.max(Date.parse(attemptAt), from), to) : undefined;
    const pick = { ...step, from, to, attempt, closing, opening: opened.get(step.sequence) };
    pick.took = to - from;
    pick.waited = attempt && attempt - from;
    pick.open = step.status === "SCHEDULED";
    pick.stretches = stretches(pick);
    return pick;
  });
  countOverlaps(picks);
  return { start, end, picks, marks: marksOf(events) };
}

// A pick from end to end: `wait` for a worker, `tries` that failed and the pauses between them,
// `work` of the last attempt; a timer, a signal and a child are waited for as a whole.
function stretches(pick) {
  const { from, to, attempt, attempts, kind } = pick;
  if (kind === "MARKER") return [];
  if (kind !== "ACTIVITY") return [{ what: kind.toLowerCase(), from, to }];
  // Queued again after an attempt that failed, or pausing before the next.
  if (pick.open && !isOut(pick)) return [{ what: attempts > 0 ? "tries" : "wait", from, to }];
  if (attempt === undefined) return [{ what: "wait", from, to }];
  return [
    { what: attempts > 1 ? "tries" : "wait", from, to: attempt },
    { what: "work", from: attempt, to },
  ];
}

// How many others were under way at some moment of each.
function countOverlaps(picks) {
  const lasting = picks.filter((pick) => pick.to > pick.from);
  const starts = lasting.map((pick) => pick.from).sort((a, b) => a - b);
  const ends = lasting.map((pick) => pick.to).sort((a, b) => a - b);
  for (const pick of picks) pick.overlaps = 0;
  for (const pick of lasting) {
    pick.overlaps = below(starts, pick.to) - below(ends, pick.from + 1) - 1;
  }
}

// How many of a sorted list are less than a limit.
function below(sorted, limit) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function overlapping(pick, picks) {
  if (!(pick.to > pick.from)) return [];
  return picks.filter(
    (other) =>
      other !== pick && other.from < pick.to && other.to > pick.from && other.to > other.from,
  );
}

function marksOf(events) {
  return events
    .filter((event) => MARKS.has(event.type))
    .map((event) => ({
      what: MARKS.get(event.type),
      at: Date.parse(event.time),
      event_id: event.event_id,
      name: event.name ?? event.reason,
    }));
}

// The picks laid side by side in as few lanes as can be: those of one lane never overlap. Beyond
// what the eye can tell apart, lanes are shared.
export function lanes(picks) {
  const free = [];
  const order = picks.filter((pick) => pick.stretches.length).sort((a, b) => a.from - b.from);
  const placed = order.map((pick) => {
    let lane = free.findIndex((until) => until <= pick.from);
    if (lane < 0) lane = free.length < MOST_LANES ? free.length : earliest(free);
    free[lane] = Math.max(free[lane] ?? 0, pick.to);
    return { pick, lane };
  });
  return { placed, count: free.length };
}

function earliest(free) {
  return free.indexOf(Math.min(...free));
}

// The round unit of which at most `most` fit into a time.
export function roundUnit(lengthMs, most) {
  const wanted = lengthMs / most;
  const years = 365 * 86_400_000;
  return UNITS_MS.find((unit) => unit >= wanted) ?? Math.ceil(wanted / years) * years;
}

// The warp of a window: the time from thread to thread, the width of that as a fraction of the
// window, and the place of the first thread as a fraction of that width.
export function warp({ from, to }, start) {
  const unit = roundUnit(to - from, WARP_THREADS);
  const first = (unit - ((from - start) % unit)) % unit;
  return { unit, width: unit / (to - from), first: first / unit };
}

// The instants to write below a window, in time since the start of the run: round, at most five.
export function ticks({ from, to }, start) {
  const unit = roundUnit(to - from, 4);
  const found = [];
  for (let at = Math.ceil((from - start) / unit) * unit; at <= to - start; at += unit)
    found.push(at);
  return found;
}

// A window moved and widened within a run, and never less than a few milliseconds.
export function windowed({ from, to }, { start, end }) {
  const length = Math.min(Math.max(to - from, 10), end - start);
  const begin = Math.min(Math.max(from, start), end - length);
  return { from: begin, to: begin + length };
}

// Where an instant falls in a window, from 0 to 1.
export function place(ms, { from, to }) {
  return Math.min(Math.max((ms - from) / (to - from), 0), 1);
}
