// What the views of runs make of what they are told. Run by test_modules.py.

import assert from "node:assert/strict";
import test from "node:test";

import { outcome, whatChanged } from "./actions.js";
import { attemptsOf } from "./attempts.js";
import { familyOf } from "./family.js";
import { matcher } from "./history.js";
import { Pace } from "./pace.js";
import { attributeOf, statusesOf } from "./runs.js";
import { stateOf } from "./step.js";
import {
  lanes,
  overlapping,
  place,
  roundUnit,
  ticks,
  timeline,
  warp,
  windowed,
} from "./timeline.js";
import { facts, whyPath } from "./why.js";

const at = (ms) => new Date(Date.UTC(2026, 0, 1) + ms).toISOString();
const t = (ms) => Date.UTC(2026, 0, 1) + ms;

// ---- the time line --------------------------------------------------------------------------------

const EVENTS = [
  { event_id: 1, type: "WorkflowStarted", time: at(0) },
  { event_id: 2, type: "StepScheduled", time: at(100), sequence: 1, input: "x" },
  { event_id: 3, type: "SignalReceived", time: at(300), name: "approved" },
  { event_id: 4, type: "StepFailed", time: at(600), sequence: 1, started_at: at(500), attempt: 1 },
  { event_id: 5, type: "TimerStarted", time: at(600), sequence: 2, delay_ms: 400 },
  { event_id: 6, type: "MarkerRecorded", time: at(600), sequence: 3, data: "2" },
];
const RUN = {
  started_at: at(0),
  updated_at: at(600),
  closed_at: at(1000),
  steps: [
    {
      sequence: 1,
      kind: "ACTIVITY",
      status: "FAILED",
      attempts: 1,
      scheduled_at: at(100),
      resolved_at: at(600),
      resolved_event_id: 4,
    },
    { sequence: 2, kind: "TIMER", status: "SCHEDULED", scheduled_at: at(600) },
    {
      sequence: 3,
      kind: "MARKER",
      status: "COMPLETED",
      scheduled_at: at(600),
      resolved_at: at(600),
      resolved_event_id: 6,
    },
  ],
};

test("a pick goes from the scheduling of its step to its end, what was waited apart", () => {
  const { picks, start, end, marks } = timeline(RUN, EVENTS, 0);
  assert.deepEqual([start, end], [t(0), t(1000)]);
  const [failed, timer, marker] = picks;
  assert.deepEqual([failed.took, failed.waited, failed.open], [500, 400, false]);
  assert.deepEqual(failed.stretches, [
    { what: "wait", from: t(100), to: t(500) },
    { what: "work", from: t(500), to: t(600) },
  ]);
  assert.equal(failed.opening.input, "x");
  assert.deepEqual(timer.stretches, [{ what: "timer", from: t(600), to: t(1000) }]);
  assert.equal(timer.open, true);
  assert.deepEqual([marker.stretches, marker.opening.data], [[], "2"]);
  assert.deepEqual(marks, [{ what: "signal", at: t(300), event_id: 3, name: "approved" }]);
});

test("failed attempts and the pauses between them are no work", () => {
  const step = { sequence: 1, kind: "ACTIVITY", status: "SCHEDULED", scheduled_at: at(0) };
  const stretchesOf = (more) => {
    const run = { started_at: at(0), updated_at: at(0), steps: [{ ...step, ...more }] };
    return timeline(run, [], t(900)).picks[0].stretches.map(({ what, from, to }) => [
      what,
      from - t(0),
      to - t(0),
    ]);
  };
  assert.deepEqual(stretchesOf({ attempts: 0 }), [["wait", 0, 900]]);
  assert.deepEqual(stretchesOf({ attempts: 2, next_attempt_at: at(2000), started_at: at(5) }), [
    ["tries", 0, 900],
  ]);
  assert.deepEqual(stretchesOf({ attempts: 3, started_at: at(400) }), [
    ["tries", 0, 400],
    ["work", 400, 900],
  ]);
});

test("a browser clock that is behind draws nothing before it began", () => {
  const run = { started_at: at(0), updated_at: at(50), steps: [] };
  const { start, end } = timeline(run, [], Date.UTC(2020, 0, 1));
  assert.equal(end - start, 50);
});

function cloth(...spans) {
  const steps = spans.map(([from, to], index) => ({
    sequence: index + 1,
    kind: "TIMER",
    status: "COMPLETED",
    scheduled_at: at(from),
    resolved_at: at(to),
  }));
  return timeline({ started_at: at(0), updated_at: at(0), closed_at: at(100), steps }, [], 0).picks;
}

test("what overlapped is counted and named", () => {
  const picks = cloth([0, 10], [5, 20], [10, 30], [40, 50], [45, 45]);
  assert.deepEqual(
    picks.map((pick) => pick.overlaps),
    [1, 2, 1, 0, 0],
  );
  assert.deepEqual(
    overlapping(picks[1], picks).map((pick) => pick.sequence),
    [1, 3],
  );
});

test("picks that overlap lie in lanes of their own, and lanes are used again", () => {
  const { placed, count } = lanes(cloth([0, 10], [5, 20], [10, 30], [20, 40]));
  assert.deepEqual(
    placed.map(({ lane }) => lane),
    [0, 1, 0, 1],
  );
  assert.equal(count, 2);
  const many = lanes(cloth(...Array.from({ length: 500 }, () => [0, 50])));
  assert.equal(many.count, 24);
});

test("the warp has round threads that keep their place when the window moves", () => {
  assert.equal(roundUnit(9_000, 48), 200);
  assert.equal(roundUnit(3_600_000, 4), 900_000);
  assert.ok(roundUnit(1e14, 4) >= 1e14 / 4);
  const { unit, width, first } = warp({ from: t(50), to: t(9650) }, t(0));
  assert.deepEqual([unit, first * unit], [200, 150]);
  assert.ok(Math.abs(width - 200 / 9600) < 1e-9);
});

test("ticks are round and few", () => {
  assert.deepEqual(ticks({ from: t(0), to: t(1000) }, t(0)), [0, 500, 1000]);
  assert.deepEqual(ticks({ from: t(1100), to: t(2900) }, t(0)), [1500, 2000, 2500]);
  for (const length of [1, 7, 999, 12345, 86400000, 3e11]) {
    assert.ok(ticks({ from: t(0), to: t(length) }, t(0)).length <= 5);
  }
});

test("a window stays within the run", () => {
  const run = { start: 0, end: 1000 };
  assert.deepEqual(windowed({ from: -50, to: 150 }, run), { from: 0, to: 200 });
  assert.deepEqual(windowed({ from: 950, to: 1150 }, run), { from: 800, to: 1000 });
  assert.deepEqual(windowed({ from: 500, to: 501 }, run), { from: 500, to: 510 });
  assert.equal(place(250, { from: 200, to: 300 }), 0.5);
  assert.equal(place(50, { from: 200, to: 300 }), 0);
});

test("an open step says what it waits for", () => {
  const open = { open: true, kind: "ACTIVITY", attempts: 1, task_queue: "gpu" };
  assert.equal(stateOf({ ...open, attempts: 0 }), "queued on gpu");
  assert.equal(
    stateOf({ ...open, started_at: at(0), worker_id: "w1", node: "n2" }),
    "attempt 1 with w1 by n2",
  );
  assert.match(stateOf({ ...open, next_attempt_at: at(0) }), /^attempt 2 at /);
  assert.equal(stateOf({ open: true, kind: "SIGNAL", signal_name: "go" }), "waits for signal go");
  assert.equal(
    stateOf({ kind: "ACTIVITY", status: "FAILED", attempts: 3, error: "no", error_type: "E" }),
    "failed in 3 attempts: E: no",
  );
});

// ---- attempts -------------------------------------------------------------------------------------

test("each attempt has its worker, node, error and time", () => {
  const past_attempts = [
    { attempt: 1, started_at: at(1), ended_at: at(4), worker_id: "a", node: "n1", error: "boom" },
    { attempt: 2, started_at: at(5), ended_at: at(9), worker_id: "b", node: "n2", error: "bang" },
  ];
  const closing = { attempt: 3, worker_id: "c", node: "n3", started_at: at(13) };
  const step = { kind: "ACTIVITY", attempts: 3, past_attempts };
  const rows = attemptsOf({ ...step, status: "COMPLETED", closing, to: t(20) });
  assert.deepEqual(
    rows.map((row) => [row.attempt, row.worker_id, row.node, row.outcome, row.took]),
    [
      [1, "a", "n1", "failed", 3],
      [2, "b", "n2", "failed", 4],
      [3, "c", "n3", "completed", 7],
    ],
  );
  assert.equal(rows[1].error, "bang");
});

test("the attempt that has just failed, or was cancelled, stands there once", () => {
  const unwanted = { attempt: 1, started_at: at(1), ended_at: at(4), worker_id: "a" };
  const failed = { ...unwanted, error: "boom" };
  const step = { kind: "ACTIVITY", attempts: 1, past_attempts: [failed] };
  const backoff = { ...step, open: true, next_attempt_at: at(9), last_error: "boom" };
  const cancelled = { ...step, status: "CANCELLED", past_attempts: [unwanted] };
  const outcomes = (pick) => attemptsOf(pick).map((row) => [row.attempt, row.outcome, row.error]);
  assert.deepEqual(outcomes(backoff), [[1, "failed", "boom"]]);
  assert.deepEqual(outcomes(cancelled), [[1, "cancelled", undefined]]);
});

test("attempts that the node did not see are said to be missing", () => {
  const pick = { kind: "ACTIVITY", attempts: 3, open: true, started_at: at(3), worker_id: "c" };
  assert.deepEqual(attemptsOf(pick)[0], { missing: 2 });
});

// ---- two people, one run --------------------------------------------------------------------------

test("who acts on a run that somebody else ended is told so, and nothing is sent", () => {
  const seen = { status: "WAITING" };
  const now = { status: "TERMINATED", closed_at: at(0), error: "no longer needed" };
  const signal = { verb: "signal" };
  const told = whatChanged(seen, now, signal);
  assert.match(
    told,
    /^Nothing was sent: the run has ended, it is TERMINATED since .*no longer needed.*left to signal/,
  );
  assert.match(whatChanged(now, now, signal), /left to signal/);
  assert.equal(whatChanged(now, now, { verb: "delete", closed: true }), "");
  const isPaused = (run) => run.status === "PAUSED";
  assert.match(whatChanged(seen, seen, { verb: "unpause", when: isPaused }), /left to unpause/);
});

test("what somebody else changed is seen before it is acted upon, and may be acted upon then", () => {
  const seen = { status: "WAITING" };
  assert.equal(whatChanged(seen, { status: "RUNNING" }, {}), "");
  const paused = { status: "PAUSED", error: "paused: lunch" };
  assert.match(whatChanged(seen, paused, {}), /it was WAITING, and it is PAUSED \(paused: lunch\)/);
  assert.equal(whatChanged(paused, paused, {}), "");
  assert.match(whatChanged(seen, { ...seen, cancel_requested_at: at(0) }, {}), /asked to cancel/);
});

test("the same verb a moment before leaves one without effect, and that is said", () => {
  const ended = { status: "TERMINATED", error: "mine" };
  assert.equal(outcome("terminate", { reason: "mine" }, ended), "The run is terminated.");
  assert.match(
    outcome("terminate", { reason: "yours" }, ended),
    /^Somebody else terminated it .*mine/,
  );
  assert.equal(
    outcome("pause", { reason: "" }, { status: "PAUSED", error: "paused: " }),
    "The run is paused.",
  );
  const told = { status: "RUNNING", cancel_requested_at: at(0), cancel_reason: "a" };
  assert.match(outcome("cancel", { reason: "b", graceful: true }, told), /^Somebody else/);
});

// ---- lists, history, family, why ------------------------------------------------------------------

test("filters are read and written", () => {
  assert.deepEqual(statusesOf({ status: "FAILED,TIMED_OUT" }), ["FAILED", "TIMED_OUT"]);
  assert.deepEqual(statusesOf({}), []);
  assert.deepEqual(attributeOf(" region = eu west "), { name: "region", value: "eu west" });
  assert.deepEqual(attributeOf("a=b=c"), { name: "a", value: "b=c" });
  for (const none of ["", "=", "a=", "=b", "ab"]) assert.equal(attributeOf(none), null);
});

test("what takes long is asked less often, and something else at once", async () => {
  const pace = new Pace(10_000);
  assert.equal(await pace.ask("a", async () => 1), 1);
  assert.equal(await pace.ask("a", async () => 2), undefined);
  assert.equal(await pace.ask("b", async () => 3), 3);
  pace.hurry();
  assert.equal(await pace.ask("b", async () => 4), 4);
  pace.hurry();
  await assert.rejects(pace.ask("b", () => Promise.reject(new Error("no leader"))));
  assert.equal(await pace.ask("b", async () => 5), 5);
});

test("the history is searched by text, event and step", () => {
  const events = [
    { event_id: 12, sequence: 3, error: "No Bank" },
    { event_id: 1, sequence: 12 },
  ];
  const found = (search) =>
    events
      .filter((event) => matcher(search)(event, JSON.stringify(event).toLowerCase()))
      .map((e) => e.event_id);
  assert.equal(matcher("  "), null);
  assert.deepEqual(found("#12"), [12]);
  assert.deepEqual(found("step 12"), [1]);
  assert.deepEqual(found("no bank"), [12]);
});

test("a family is made of a run alone where a node tells no more", () => {
  const family = familyOf({
    run_id: "r2",
    status: "RUNNING",
    started_at: at(0),
    continued_from_run_id: "r1",
    steps: [
      { kind: "CHILD", workflow_id: "c", run_id: "", workflow_type: "T", scheduled_at: at(1) },
      { kind: "TIMER" },
    ],
  });
  assert.equal(family.parent, null);
  assert.deepEqual(
    family.children.items.map((child) => child.workflow_id),
    ["c"],
  );
  assert.deepEqual(
    family.chain.map((link) => link.run_id),
    ["r1", "r2"],
  );
});

test("why asks by the subject, with ids of any kind", () => {
  assert.equal(whyPath({ kind: "run", workflow_id: "a/b" }), "/api/why/run/a%2Fb");
  assert.equal(whyPath({ kind: "task", workflow_id: "x", step: 3 }), "/api/why/task/x");
  assert.equal(whyPath({ kind: "queue", name: "q" }), "/api/why/queue/q");
  assert.equal(whyPath({ kind: "node", id: "n1" }), "/api/why/node/n1");
  assert.equal(whyPath({ kind: "leader" }), "/api/why/leader");
});

test("evidence is shown whole, as names and texts", () => {
  const shown = facts({
    queue: "gpu",
    waits_ms: 61000,
    size_bytes: 2048,
    pollers: ["n1", "n2"],
    none: null,
    empty: [],
    each: [{ step: "a", since_ms: 1000 }, { step: "b" }],
    nested: { a: 1 },
    held: false,
  });
  assert.deepEqual(
    shown.map(({ name, texts }) => [name, texts]),
    [
      ["queue", ["gpu"]],
      ["waits_ms", ["1 min 1 s"]],
      ["size_bytes", ["2,048 bytes"]],
      ["pollers", ["n1, n2"]],
      ["each", ["step a · since 1 s", "step b"]],
      ["nested", ["a 1"]],
      ["held", ["false"]],
    ],
  );
  assert.deepEqual([shown[0].href, shown[1].href], ["#/queues?q=gpu", undefined]);
});
