// The nodes side by side: each a thread, crossed by what is told of it. One value that differs from
// its neighbours is seen at once.

import { bytes, count, h, reconcile, roundDuration } from "./dom.js";
import { lookOf, stateOf } from "./nodes.js";

// Each fact as [text, look]; most of them look like any other.
const GROUPS = {
  Log: {
    "commit index": (node) => [count(node.commit_index)],
    "applied index": (node) => [count(node.applied_index)],
    "match index": (node) => [count(node.match_index)],
    lag: (node) => [count(node.lag), lookOf(node, "lag")],
    "last contact": (node) => [contact(node), lookOf(node, "last_contact_ms")],
    term: (node) => [count(node.term)],
  },
  Disk: {
    free: (node) => [bytes(node.disk_free_bytes), lookOf(node, "disk_free_bytes")],
    store: (node) => [bytes(node.store_bytes)],
    log: (node) => [bytes(node.log_bytes)],
    fsync: (node) => [milliseconds(node.fsync_ms), lookOf(node, "fsync_ms")],
    snapshot: (node) => [age(node.snapshot_age_seconds)],
  },
  Process: {
    "loop lag": (node) => [milliseconds(node.loop_lag_ms), lookOf(node, "loop_lag_ms")],
    "clock skew": (node) => [milliseconds(node.clock_skew_ms), lookOf(node, "clock_skew_ms")],
    up: (node) => [age(node.uptime_seconds)],
    version: (node) => [node.version || "–"],
    level: (node) => [count(node.feature_level)],
    HTTP: (node) => [node.http || "–"],
    Raft: (node) => [node.raft || "–"],
  },
};

export class NodeTable {
  // `actionsOf(node, cluster)` are the buttons below a node.
  constructor(actionsOf) {
    this.actionsOf = actionsOf;
    this.head = h("thead");
    this.bodies = Object.keys(GROUPS).map((name) => h("tbody", { "aria-label": name }));
    this.foot = h("tfoot");
    this.element = h(
      "div",
      { class: "scroll card", role: "region", "aria-label": "Nodes", tabindex: "0" },
      h("table", { class: "threading" }, this.head, this.bodies, this.foot),
    );
  }

  show(cluster) {
    const states = cluster.nodes.map((node) => ({ id: node.id, ...stateOf(node, cluster) }));
    reconcile(this.head, [states], () => "head", headRow);
    Object.values(GROUPS).forEach((facts, group) => {
      const rows = Object.entries(facts).map(([name, tell]) => ({
        name,
        cells: cluster.nodes.map((node, at) => cellOf(tell(node), states[at])),
      }));
      reconcile(this.bodies[group], rows, ({ name }) => name, factRow);
    });
    // What can be done changes with who leads and who belongs to it, and with nothing else.
    const memo = () => JSON.stringify([states, cluster.leader]);
    reconcile(
      this.foot,
      [cluster],
      () => "foot",
      (each) => this.footRow(each),
      memo,
    );
  }

  footRow(cluster) {
    const cells = cluster.nodes.map((node) =>
      h("td", {}, h("div", { class: "row-actions" }, this.actionsOf(node, cluster))),
    );
    return h("tr", {}, h("th", { scope: "row" }, h("span", { class: "unseen" }, "Actions")), cells);
  }
}

function headRow(states) {
  const heads = states.map(({ id, label, health }) =>
    h(
      "th",
      { scope: "col", class: `${health} node ${label.replace(/\W+/g, "-")}`, "data-node": id },
      h("span", { class: "node-id" }, id),
      h("span", { class: `pill ${health}` }, label),
    ),
  );
  return h("tr", {}, h("td", {}, h("span", { class: "unseen" }, "Fact")), heads);
}

function factRow({ name, cells }) {
  const cell = ({ text, look, health }) =>
    h("td", { class: `thread-of ${health}` }, h("span", { class: look }, text));
  return h("tr", {}, h("th", { scope: "row" }, name), cells.map(cell));
}

function cellOf([text, look], { health }) {
  return { text, look, health };
}

function contact({ last_contact_ms: ms }) {
  if (!Number.isFinite(ms)) return "–";
  return ms < 1000 ? "now" : `${seconds(ms / 1000)} ago`;
}

function age(number) {
  return Number.isFinite(number) ? seconds(number) : "–";
}

function seconds(number) {
  return number < 1 ? "0 s" : roundDuration(Math.floor(number) * 1000);
}

function milliseconds(ms) {
  if (!Number.isFinite(ms)) return "–";
  return `${Number.isInteger(ms) || Math.abs(ms) >= 10 ? Math.round(ms) : ms.toFixed(1)} ms`;
}
