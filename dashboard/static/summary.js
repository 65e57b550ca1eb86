// The head of the page: who leads, in one sentence, and a thread for each node.

import { h, reconcile, setText } from "./dom.js";
import { stateOf } from "./nodes.js";
import { link } from "./routes.js";

export function showSummary(cluster, base, streaming) {
  const states = cluster.nodes.map((node) => ({ id: node.id, ...stateOf(node, cluster) }));
  const leads = cluster.leader ? `${cluster.leader} leads` : "no leader";
  setText(document.getElementById("summary"), `${leads} · term ${cluster.term}`);
  const seen = document.getElementById("seen");
  setText(seen, `seen by ${cluster.node}${streaming ? ", live" : ""}`);
  seen.title = new URL(base).host;
  reconcile(
    document.getElementById("threads"),
    states,
    ({ id }) => id,
    ({ id, label, health }) =>
      h(
        "li",
        { class: `thread ${health}` },
        h("a", { href: link("cluster"), title: `${id}: ${label}` }, id),
        h("span", { class: "unseen" }, ` ${label}`),
      ),
  );
  // A screen on a wall is read from afar.
  document.getElementById("selvage").dataset.health = healthOf(cluster, states);
}

function healthOf(cluster, states) {
  if (!cluster.leader) return "bad";
  return states.some(({ health }) => health === "bad") ? "warn" : "good";
}
