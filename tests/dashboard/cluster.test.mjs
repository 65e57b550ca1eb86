// What the view of the cluster, of queues and of the audit log work out before they show it.

import assert from "node:assert/strict";
import test from "node:test";

import { asked } from "./audit.js";
import { columns, roundedUp, trimmed } from "./charts.js";
import { bytes } from "./dom.js";
import { handovers, reignsOf } from "./elections.js";
import { serveLine } from "./members.js";
import { concerns, lookOf, stateOf } from "./nodes.js";
import { isStuck, pollersOf } from "./queues.js";

const at = (ms) => new Date(Date.UTC(2026, 0, 1) + ms).toISOString();
const MINUTE = 60_000;

test("a node is down or cut off whatever it said before", () => {
  const cluster = { node: "n1", leader: "n2" };
  const state = (node) => stateOf({ connected: true, member: "voter", ...node }, cluster);
  assert.deepEqual(state({ id: "n2", role: "leader" }), { label: "leader", health: "good" });
  assert.deepEqual(state({ id: "n1", role: "follower" }), { label: "follower", health: "calm" });
  const away = { id: "n3", role: "follower", connected: false };
  assert.deepEqual(state(away), { label: "away", health: "bad" });
  assert.deepEqual(state({ ...away, member: "learner" }), {
    label: "learner, away",
    health: "bad",
  });
  assert.deepEqual(state({ id: "n3", role: "unknown" }), { label: "silent", health: "bad" });
  const frozen = { id: "n3", role: "follower", reachable: false };
  assert.deepEqual(state(frozen), { label: "silent", health: "bad" });
  // The node that is asked answers: whatever it thinks of itself.
  assert.equal(state({ id: "n1", role: "follower", connected: false }).label, "follower");
  assert.deepEqual(state({ ...away, member: "removed" }), { label: "removed", health: "calm" });
});

test("what is not known of a node is no concern, what is over its bound is", () => {
  const older = { disk_free_bytes: null, clock_skew_ms: null, certificates: null };
  assert.deepEqual(concerns(older), []);
  const pressed = { disk_free_bytes: 5, clock_skew_ms: -1200, fsync_ms: 30, lag: 5000 };
  assert.deepEqual(
    concerns(pressed).map(({ name }) => name),
    ["disk_free_bytes", "lag", "clock_skew_ms"],
  );
  assert.deepEqual(
    [lookOf(pressed, "fsync_ms"), lookOf(pressed, "loop_lag_ms")],
    ["warn", undefined],
  );
  const ending = { certificates: { api: -5, peers: 86_400 * 3, far: 86_400 * 300 } };
  assert.deepEqual(
    concerns(ending).map(({ text }) => text),
    ["its api certificate is over", "its peers certificate ends in 3 days"],
  );
});

test("reigns follow one another, and the time without a leader is nobody's", () => {
  const elections = [
    { at: at(0), term: 1, leader: "n1", reason: "first election" },
    { at: at(10 * MINUTE), term: 1, leader: null, reason: "no word from n1 for 620 ms" },
    { at: at(10 * MINUTE + 900), term: 2, leader: "n2", reason: "elected" },
  ];
  const { reigns, from, to } = reignsOf(elections, Date.parse(at(70 * MINUTE)));
  assert.equal(to - from, 60 * MINUTE);
  // The first one ended when the hour began; the second one began with it.
  assert.deepEqual(
    reigns.map(({ leader, began }) => [leader, began]),
    [
      [null, true],
      ["n2", true],
    ],
  );
  assert.equal(reigns[0].to, reigns[1].from);
  assert.equal(reigns[1].to, to);
});

test("a handover tells how long there was no leader, and why; a vacancy that lasts is told, too", () => {
  const elections = [
    { at: at(0), term: 1, leader: "n1", reason: "first election" },
    { at: at(1000), term: 1, leader: null, reason: "no word from n1 for 620 ms" },
    { at: at(1100), term: 2, leader: null, reason: "split vote" },
    { at: at(1900), term: 3, leader: "n2", reason: "elected" },
    { at: at(5000), term: 3, leader: null, reason: "no majority" },
  ];
  assert.deepEqual(
    handovers(elections).map(({ leader, after, reason }) => [leader, after, reason]),
    [
      ["n1", null, "first election"],
      ["n2", 900, "no word from n1 for 620 ms"],
      [null, undefined, "no majority"],
    ],
  );
});

test("a cluster that has just begun has two minutes, one whose clock is ahead no future", () => {
  const elections = [{ at: at(5000), term: 1, leader: "n1", reason: "first election" }];
  const { reigns, from, to } = reignsOf(elections, Date.parse(at(0)));
  assert.equal(to, Date.parse(at(5000)));
  assert.equal(to - from, 2 * MINUTE);
  assert.deepEqual([reigns[0].from, reigns[0].to], [to, to]);
  assert.deepEqual(reignsOf([], 1000).reigns, []);
});

test("a spike does not fall through a chart, nor does what is unknown become 0", () => {
  assert.deepEqual(columns([1, 9, 2, null, null, null], 3), [9, 2, null]);
  assert.deepEqual(columns([], 3), []);
  assert.deepEqual([0, 0.2, 3, 70, 100, 101].map(roundedUp), [1, 1, 5, 100, 100, 200]);
});

test("the hour begins when the node did", () => {
  const none = Array(700).fill(null);
  const samples = { commits: [...none, ...Array(100).fill(1)], leases: Array(800).fill(null) };
  const hour = trimmed({ node: "n1", every_ms: 5000, from: at(0), samples });
  assert.deepEqual([hour.length, hour.samples.commits.length], [100, 100]);
  assert.equal(hour.from, Date.parse(at(700 * 5000)));
  const begun = trimmed({ node: "n1", every_ms: 5000, from: at(0), samples: { commits: [1] } });
  assert.equal(begun.length, 1);
});

test("a queue that nobody polls is stuck, unless somebody is at work", () => {
  const queue = { queued: 3, pollers: [], leases: 0 };
  assert.ok(isStuck(queue));
  assert.ok(!isStuck({ ...queue, leases: 1 }));
  assert.ok(!isStuck({ ...queue, queued: 0 }));
  assert.ok(!isStuck({ ...queue, queued: null }));
});

test("pollers are counted per node, apart from those that take some types alone", () => {
  const poller = (node, types, polls) => ({ node, types, polls });
  const pollers = [
    poller("n2", ["Pack", "Bill"], 1),
    poller("n2", ["*"], 2),
    poller("n1", ["*"], 1),
    poller("n2", ["*"], 1),
  ];
  assert.deepEqual(pollersOf({ pollers }), [
    { types: "", nodes: "n1 ×1, n2 ×3" },
    { types: "Bill, Pack", nodes: "n2 ×1" },
  ]);
});

test("a node that was added is started as the command line says", () => {
  const cluster = {
    cluster_id: "shop",
    nodes: [
      { id: "n1", member: "voter", raft: "a:1" },
      { id: "n2", member: "api", raft: "b:1" },
      { id: "n4", member: "learner", raft: "d:1" },
    ],
  };
  const line = "raftflow serve --node-id n4 --raft-addr d:1 --cluster-id shop --join n1=a:1";
  assert.equal(serveLine(cluster, { id: "n4", raft: "d:1" }), line);
});

test("times of the audit filter go to the API in UTC, half-typed ones not at all", () => {
  const local = "2026-03-01T10:00";
  assert.deepEqual(asked({ actor: "root", after: local, call: "" }), {
    actor: "root",
    after: new Date(local).toISOString(),
    before: "",
    call: "",
  });
  assert.equal(asked({ after: "soon" }).after, "");
});

test("sizes", () => {
  const shown = [0, 1023, 1536, 71 * 2 ** 30, null].map(bytes);
  assert.deepEqual(shown, ["0 B", "1023 B", "1.5 KiB", "71 GiB", "–"]);
});
