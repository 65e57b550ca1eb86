// What a node is at present, in words and in health: good, calm, warn or bad.

// What it does matters most; that it does not vote, if it only follows.
export function stateOf(node, cluster) {
  const away = node.connected === false && node.id !== cluster.node;
  if (node.member === "removed") return { label: "removed", health: "calm" };
  if (away) return { label: kindOf(node, "away"), health: "bad" };
  if (node.role === "unknown") return { label: "no answer", health: "bad" };
  if (node.role.toLowerCase() === "candidate") return { label: "candidate", health: "warn" };
  if (node.member === "learner") return { label: "learner", health: "warn" };
  if (node.member === "api") return { label: "api", health: "calm" };
  const leads = node.role.toLowerCase() === "leader";
  return { label: node.role.toLowerCase(), health: leads ? "good" : "calm" };
}

function kindOf({ member }, state) {
  return member === "voter" || !member ? state : `${member}, ${state}`;
}

// What of a node asks for a look: [{name, text}], most pressing first.
export function concerns(node) {
  const found = [];
  const add = (when, name, text) => when && found.push({ name, text });
  const violations = node.invariants?.violations?.length ?? 0;
  add(violations, "invariants", `${violations} invariants do not hold`);
  add(node.repair, "repair", node.repair);
  add(node.no_vote, "no vote", node.no_vote);
  add(node.disk_free_bytes < DISK_LOW_BYTES, "disk", "less than 1 GiB of disk free");
  add(Math.abs(node.clock_skew_ms) > SKEW_MS, "clock", `clock off by ${node.clock_skew_ms} ms`);
  add(node.fsync_ms > FSYNC_SLOW_MS, "fsync", `an fsync takes ${Math.round(node.fsync_ms)} ms`);
  add(node.loop_lag_ms > LOOP_SLOW_MS, "loop", `its loop is ${Math.round(node.loop_lag_ms)} ms late`);
  add(node.auth === "exposed", "auth", "others reach it, and it asks nobody for a token");
  for (const [use, seconds] of Object.entries(node.certificates ?? {})) {
    const days = Math.floor(seconds / 86_400);
    const over = seconds <= 0 ? `the ${use} certificate is over` : `the ${use} certificate ends in ${days} days`;
    add(days < CERTIFICATE_DAYS, "certificate", over);
  }
  return found;
}

const DISK_LOW_BYTES = 2 ** 30;
const SKEW_MS = 250;
const FSYNC_SLOW_MS = 100;
const LOOP_SLOW_MS = 250;
const CERTIFICATE_DAYS = 14;
