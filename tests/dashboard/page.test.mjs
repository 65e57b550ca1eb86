// The parts of the page that need no browser. Run by test_modules.py, which sets NODES to the
// addresses of two servers: the first refuses connections, the second echoes what it is asked.

import assert from "node:assert/strict";
import test from "node:test";

import { Api, ApiError, Unreachable, workflowPath } from "./api.js";
import { duration, visible } from "./dom.js";
import { offsetAfter } from "./runs.js";
import { ticks, timeline } from "./timeline.js";

const [DEAD, ALIVE] = process.env.NODES.split(" ");

test("ids of any kind are one segment of the path", () => {
  for (const id of ["a/b", "q'\"", "a b", "🦆", "<script>", "%2F?#{id}"]) {
    const path = new URL(workflowPath(id, "signal"), "http://x").pathname.split("/");
    assert.deepEqual(path.map(decodeURIComponent), ["", "api", "workflows", id, "signal"]);
  }
});

test("the next page of runs begins after a page that ended early", () => {
  assert.equal(offsetAfter(100, 50, 1), 150);
  assert.equal(offsetAfter(100, 3, 1), 103);
  assert.equal(offsetAfter(103, 3, -1), 53);
  assert.equal(offsetAfter(3, 50, -1), 0);
});

test("a dead node is left for one that the cluster told of", async () => {
  const api = new Api(`http://${ALIVE}`);
  api.learn([{ http: DEAD }, { http: ALIVE }, { http: "" }]);
  assert.deepEqual(api.bases, [`http://${ALIVE}`, `http://${DEAD}`]);
  api.current = 1;
  const echo = await api.get("/api/workflows", { q: "a b", status: "" });
  assert.equal(echo.target, "/api/workflows?q=a+b");
  assert.equal(api.base, `http://${ALIVE}`);
});

test("a call that changes something keeps its request id on every node", async () => {
  const api = new Api(`http://${DEAD}`);
  api.learn([{ http: ALIVE }]);
  api.namespace = "shop";
  api.token = "of-the-shop";
  const echo = await api.post("/api/workflows", { type: "Order" });
  assert.match(echo.body.request_id, /^[0-9a-f]{32}$/);
  assert.equal(echo.body.type, "Order");
  assert.equal(echo.headers.Authorization ?? echo.headers.authorization, "Bearer of-the-shop");
  assert.equal(echo.headers["X-Workflowd-Namespace"] ?? echo.headers["x-workflowd-namespace"], "shop");
});

test("when no node answers the error names each", async () => {
  const api = new Api(`http://${DEAD}`);
  await assert.rejects(api.get("/api/cluster"), (error) => {
    assert.ok(error instanceof Unreachable);
    assert.ok(error.message.includes(DEAD));
    return true;
  });
});

test("an error of the server is shown in its own words", async () => {
  const api = new Api(`http://${ALIVE}`);
  await assert.rejects(api.get("/api/refused"), (error) => {
    assert.ok(error instanceof ApiError);
    assert.equal(error.message, "unknown workflow");
    assert.equal(error.status, 404);
    return true;
  });
});

const at = (ms) => new Date(Date.UTC(2026, 0, 1) + ms).toISOString();

test("steps are laid out between start and end of the run", () => {
  const events = [
    { event_id: 1, type: "WorkflowStarted", time: at(0) },
    { event_id: 2, type: "StepScheduled", time: at(100), sequence: 1, input: "x" },
    { event_id: 3, type: "StepFailed", time: at(600), sequence: 1, started_at: at(500) },
    { event_id: 4, type: "TimerStarted", time: at(600), sequence: 2, delay_ms: 400 },
  ];
  const run = {
    started_at: at(0),
    updated_at: at(600),
    closed_at: at(1000),
    steps: [
      {
        sequence: 1,
        status: "FAILED",
        scheduled_at: at(100),
        resolved_at: at(600),
        resolved_event_id: 3,
      },
      { sequence: 2, status: "SCHEDULED", scheduled_at: at(600) },
    ],
  };
  const { steps, length } = timeline(run, events, 0);
  assert.equal(length, 1000);
  assert.deepEqual([steps[0].from, steps[0].attempt, steps[0].to], [0.1, 0.5, 0.6]);
  assert.deepEqual([steps[0].took, steps[0].waited, steps[0].open], [500, 400, false]);
  assert.equal(steps[0].opening.input, "x");
  assert.deepEqual([steps[1].from, steps[1].to, steps[1].open], [0.6, 1, true]);
  assert.equal(steps[1].attempt, undefined);
});

test("a browser clock that is behind draws nothing before it began", () => {
  const run = { started_at: at(0), updated_at: at(50), steps: [] };
  assert.equal(timeline(run, [], Date.UTC(2020, 0, 1)).length, 50);
});

test("ticks are round and few", () => {
  assert.deepEqual(ticks(1000), [0, 500, 1000]);
  assert.deepEqual(ticks(9000), [0, 5000]);
  for (const length of [1, 7, 999, 12345, 86400000]) assert.ok(ticks(length).length <= 5);
});

test("durations", () => {
  const shown = [0, 999, 1500, 61_000, 7_200_000, 200_000_000, undefined].map(duration);
  assert.deepEqual(shown, ["0 ms", "999 ms", "1.50 s", "1 min 1 s", "2 h 0 min", "2 d 7 h", ""]);
});

test("what cannot be seen is written out, as the command line does", () => {
  assert.equal(visible("a b\u202egnp.exe"), "a b\\u202egnp.exe");
  assert.equal(visible("\x1b[2J\u0085\u200d\u2066\ufeff\u{e0041}"), "\\x1b[2J\\x85\\u200d\\u2066\\ufeff\\U000e0041");
  assert.equal(visible("a\n\tb\r"), "a\\n\\tb\\r");
  assert.equal(visible("a\n\tb\r", { lines: true }), "a\n\tb\\r");
  assert.equal(visible("no\u00a0break"), "no\\xa0break");
  assert.equal(visible("\ud800"), "\\ud800");
  for (const plain of ["<script>", "Grüße", "שלום", "🦆", "日本"]) assert.equal(visible(plain), plain);
});

test("a child and a marker open with events of their own", () => {
  const events = [
    { event_id: 1, type: "WorkflowStarted", time: at(0) },
    { event_id: 2, type: "ChildStarted", time: at(10), sequence: 1, input: "x" },
    { event_id: 3, type: "MarkerRecorded", time: at(20), sequence: 2, data: "2" },
  ];
  const run = {
    started_at: at(0),
    updated_at: at(20),
    steps: [
      { sequence: 1, kind: "CHILD", status: "SCHEDULED", scheduled_at: at(10) },
      {
        sequence: 2,
        kind: "MARKER",
        status: "COMPLETED",
        scheduled_at: at(20),
        resolved_at: at(20),
        resolved_event_id: 3,
      },
    ],
  };
  const { steps } = timeline(run, events, 0);
  assert.deepEqual([steps[0].opening.input, steps[0].open], ["x", true]);
  assert.deepEqual([steps[1].opening.data, steps[1].took], ["2", 0]);
});

test("a session is opened with a token, and what it changes is marked as ours", async () => {
  const api = new Api(`http://${ALIVE}`);
  await api.logIn("rf_id_secret");
  assert.equal(api.token, "");
  const header = (echo, name) => echo.headers[name] ?? echo.headers[name.toLowerCase()];
  const posted = await api.post("/api/workflows", { type: "Order" });
  assert.equal(header(posted, "X-Raftflow-Session"), "1");
  assert.equal(header(posted, "Authorization"), undefined);
  const read = await api.get("/api/workflows");
  assert.equal(header(read, "X-Raftflow-Session"), undefined);
});

test("a cookie does not follow to another host", () => {
  const api = new Api("http://127.0.0.1:8233");
  api.learn([{ http: "127.0.0.1:8234" }, { http: "10.0.0.2:8233" }]);
  const away = api.bases.map((_, current) => Object.assign(api, { current }).away);
  assert.deepEqual(away, [false, false, true]);
});
