// What a node is at present, in words and in health: good, calm, warn or bad.

import { bytes } from "./dom.js";

// What it does matters most; that it does not vote, if it only follows.
export function stateOf(node, cluster) {
  if (node.member === "removed") return { label: "removed", health: "calm" };
  const gone = node.id !== cluster.node && absence(node);
  if (gone) return { label: memberWord(node, gone), health: "bad" };
  const role = node.role.toLowerCase();
  if (role === "candidate") return { label: role, health: "warn" };
  if (node.member === "learner") return { label: "learner", health: "warn" };
  if (node.member === "api") return { label: "api", health: "calm" };
  return { label: role, health: role === "leader" ? "good" : "calm" };
}

// Down or cut off; or there, and without a word: frozen, or too busy. A node before 0.5 tells no
// more than that its own row is missing.
function absence({ connected, reachable, role }) {
  if (connected === false) return "away";
  return reachable === false || role === "unknown" ? "silent" : "";
}

function memberWord({ member }, state) {
  return member === "voter" || !member ? state : `${member}, ${state}`;
}

const DAY_S = 86_400;

// From which value on a fact needs a look, and from which it is bad: as `why` judges them
// (cluster/why/machine.py, lagging.py). What is not known is neither.
const MIB = 2 ** 20;
const BOUNDS = {
  lag: { warn: 64, bad: 1000 },
  last_contact_ms: { warn: 1000, bad: 5000 },
  fsync_ms: { warn: 20, bad: 100 },
  loop_lag_ms: { warn: 100, bad: 250 },
  clock_skew_ms: { warn: 250, bad: 1000 },
  disk_free_bytes: { warn: 2048 * MIB, bad: 512 * MIB, below: true },
};
const CERTIFICATE_ENDS_S = 14 * DAY_S;

// "warn", "bad", or undefined.
export function lookOf(node, fact) {
  const value = node[fact];
  if (!Number.isFinite(value)) return undefined;
  const { warn, bad, below } = BOUNDS[fact];
  const reaches = (bound) => (below ? value < bound : Math.abs(value) >= bound);
  if (reaches(bad)) return "bad";
  return reaches(warn) ? "warn" : undefined;
}

// What of a node asks for a look: [{name, text, health}], most pressing first.
export function concerns(node) {
  const violated = node.invariants?.violated;
  const found = [
    violated && { health: "bad", name: "invariants", text: `${violated} invariants do not hold` },
    node.repair && { health: "bad", name: "repair", text: node.repair },
    bad(node, "disk_free_bytes", `${bytes(node.disk_free_bytes)} of disk free`),
    node.no_vote && {
      health: "warn",
      name: "vote",
      text: `counts in no majority: ${node.no_vote}`,
    },
    bad(node, "lag", `${node.lag} entries are not applied yet`),
    bad(node, "fsync_ms", `an fsync takes ${Math.round(node.fsync_ms)} ms`),
    bad(node, "loop_lag_ms", `its loop is ${Math.round(node.loop_lag_ms)} ms late`),
    bad(node, "clock_skew_ms", `its clock is ${node.clock_skew_ms} ms off`),
    node.auth === "exposed" && {
      health: "warn",
      name: "auth",
      text: "others reach it, and it asks nobody for a token",
    },
    ...Object.entries(node.certificates ?? {}).map(certificateConcern),
  ];
  return found.filter(Boolean);
}

function bad(node, name, text) {
  return lookOf(node, name) === "bad" ? { health: "bad", name, text } : null;
}

function certificateConcern([use, left]) {
  if (left > CERTIFICATE_ENDS_S) return null;
  const name = `certificate ${use}`;
  if (left <= 0) return { health: "bad", name, text: `its ${use} certificate is over` };
  const days = Math.floor(left / DAY_S);
  return { health: "warn", name, text: `its ${use} certificate ends in ${days} days` };
}
