// The nodes side by side: each a thread, crossed by what is told of it. One value that differs from
// its neighbours is seen at once.

import { bytes, count, h, reconcile, roundDuration } from "./dom.js";
import { stateOf } from "./nodes.js";

const DISK_LOW_BYTES = 2 ** 30;

// A value: text, or [text, "warn" | "bad"].
const GROUPS = {
  Log: {
    "commit index": (node) => count(node.commit_index),
    "applied index": (node) => count(node.applied_index),
    "match index": (node) => count(node.match_index),
    lag: ({ lag }) => [count(lag), lag > 1000 && "bad", lag > 100 && "warn"],
    "last contact": (node) => contact(node),
    term: (node) => count(node.term),
  },
  Disk: {
    free: ({ disk_free_bytes: free }) => [bytes(free), free < DISK_LOW_BYTES && "bad"],
    store: (node) => bytes(node.store_bytes),
    log: (node) => bytes(node.log_bytes),
    fsync: ({ fsync_ms: ms }) => [fine(ms), ms > 100 && "bad", ms > 20 && "warn"],
    snapshot: (node) => age(node.snapshot_age_seconds),
  },
  Process: {
    "loop lag": ({ loop_lag_ms: ms }) => [fine(ms), ms > 250 && "bad", ms > 50 && "warn"],
    "clock skew": ({ clock_skew_ms: ms }) => [
      Number.isFinite(ms) ? `${ms} ms` : "–",
      Math.abs(ms) > 1000 && "bad",
      Math.abs(ms) > 250 && "warn",
    ],
    up: (node) => age(node.uptime_seconds),
    version: (node) => node.version || "–",
    level: (node) => count(node.feature_level),
    address: (node) => node.http || "–",
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
    Object.entries(GROUPS).forEach(([group, facts], at) => {
      const rows = Object.entries(facts).map(([name, tell]) => ({
        name,
        group,
        cells: cluster.nodes.map((node, column) => ({ ...told(tell(node)), of: states[column] })),
      }));
      reconcile(this.bodies[at], rows, ({ name }) => name, factRow);
    });
    // What can be done changes with who leads and who belongs to it, and with nothing else.
    const memo = () => JSON.stringify([states, cluster.leader]);
    reconcile(this.foot, [cluster], () => "foot", (each) => this.footRow(each), memo);
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
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, name),
    cells.map(({ text, look, of }) => h("td", { class: `thread-of ${of.health}` }, h("span", { class: look }, text))),
  );
}

function told(value) {
  const [text, ...looks] = [value].flat();
  return { text, look: looks.find(Boolean) || undefined };
}

function contact({ last_contact_ms: ms }) {
  if (ms === undefined || ms === null) return "–";
  if (ms < 1000) return "now";
  return [`${roundDuration(Math.floor(ms / 1000) * 1000)} ago`, "bad"];
}

function age(seconds) {
  return Number.isFinite(seconds) ? roundDuration(Math.floor(seconds) * 1000) || "0 s" : "–";
}

function fine(ms) {
  if (!Number.isFinite(ms)) return "–";
  return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
}
