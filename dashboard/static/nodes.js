// The nodes of the cluster: who leads, and how far each one is.

import { count, h, reconcile, roundDuration, setText } from "./dom.js";

export function showNodes(cluster, answeredBy) {
  const leader = cluster.leader ? `${cluster.leader} leads` : "no leader";
  setText(
    document.getElementById("summary"),
    [
      leader,
      `term ${cluster.term}`,
      cluster.pending_change,
      `seen by ${cluster.node} at ${new URL(answeredBy).host}`,
    ]
      .filter(Boolean)
      .join(" · "),
  );
  const nodes = cluster.nodes.map((node) => ({
    ...node,
    away: node.connected === false && node.id !== cluster.node,
    last_contact_ms: node.last_contact_ms && Math.round(node.last_contact_ms / 1000) * 1000,
  }));
  reconcile(document.getElementById("nodes"), nodes, (node) => node.id, card);
}

// What a node does matters most; that it does not vote, if it only follows.
function roleOf(node) {
  if (node.member === "removed") return "removed";
  if (node.member === "api") return node.away ? "api, away" : "api";
  if (node.away) return node.member === "learner" ? "learner, away" : "away";
  return node.member === "learner" ? "learner" : node.role.toLowerCase();
}

function card(node) {
  const role = roleOf(node);
  return h(
    "article",
    { class: `node ${role.replace(",", "")}` },
    h(
      "header",
      {},
      h("span", { class: "dot", "aria-hidden": "true" }),
      h("strong", {}, node.id),
      h("span", { class: "role" }, role),
    ),
    h(
      "dl",
      {},
      fact("commit", count(node.commit_index)),
      fact("term", count(node.term)),
      fact("applied", count(node.applied_index)),
      fact("lag", count(node.lag)),
      fact("heard", heard(node)),
      fact("version", node.version || "–"),
      fact("level", count(node.feature_level)),
      fact("disk", node.incarnation ? node.incarnation.slice(0, 8) : "–"),
    ),
    h("p", { class: "quiet address" }, node.http || ""),
  );
}

function heard({ last_contact_ms: ms }) {
  if (ms === undefined || ms === null) return "–";
  return ms < 1000 ? "now" : `${roundDuration(ms)} ago`;
}

function fact(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}
