// The cluster: who leads since when, what needs a look, every node, the elections, the last hour.

import { Charts } from "./charts.js";
import { now } from "./clock.js";
import { button, h, localTime, reconcile, roundDuration, setText } from "./dom.js";
import { Elections } from "./elections.js";
import { actionsOf, addNode, transfer } from "./members.js";
import { concerns, stateOf } from "./nodes.js";
import { NodeTable } from "./nodetable.js";
import { openWhy, whyButton } from "./why.js";

export class ClusterView {
  // What is told of each second comes by itself; the charts get a point each five.
  static every = 5000;

  constructor(shell) {
    this.shell = shell;
    this.leader = h("strong");
    this.since = h("span", { class: "quiet" });
    this.whyLeader = h("span", {}, mayAsk(shell, "Leader", { kind: "leader" }, "the leader"));
    this.concerns = h("ul", { class: "concerns", "aria-label": "What needs a look" });
    this.nodes = new NodeTable((node, cluster) => actionsOf(shell, node, cluster));
    this.elections = new Elections();
    this.charts = new Charts(shell);
    this.element = h(
      "section",
      { class: "cluster" },
      h(
        "header",
        { class: "toolbar" },
        h("h1", {}, "Cluster"),
        h("p", { class: "leads" }, this.leader, " ", this.since, " ", this.whyLeader),
        h("div", { class: "actions" }, clusterActions(shell)),
      ),
      this.concerns,
      h("div", { class: "cluster-now" }, this.nodes.element, this.elections.element),
      this.charts.element,
    );
  }

  get title() {
    return "Cluster";
  }

  showCluster(cluster) {
    const since = cluster.leader && sinceOf(cluster);
    setText(this.leader, cluster.leader ? `${cluster.leader} leads` : "No leader");
    this.leader.className = cluster.leader ? "good" : "bad";
    const said = [heldFor(since), `term ${cluster.term}`, cluster.pending_change];
    setText(this.since, said.filter(Boolean).join(" · "));
    const found = cluster.nodes.flatMap((node) => pressing(node, cluster));
    reconcile(
      this.concerns,
      found,
      ({ id, name }) => `${id} ${name}`,
      (each) => this.concern(each),
    );
    this.concerns.hidden = found.length === 0;
    this.nodes.show(cluster);
    this.elections.show(cluster);
  }

  concern({ id, text, health }) {
    const ask = mayAsk(this.shell, "Node", { kind: "node", id }, `node ${id}`);
    return h("li", { class: health }, h("b", {}, id), " ", text, " ", ask);
  }

  update() {
    return this.charts.update();
  }
}

function clusterActions(shell) {
  const { api } = shell;
  return [
    api.may("WhyLog") &&
      button("Ask about the log", () => openWhy(api, { kind: "log" }, "the log")),
    api.may("TransferLeadership") && button("Transfer leadership", () => transfer(shell)),
    api.may("AddNode") && button("Add a node", () => addNode(shell)),
  ].filter(Boolean);
}

// A node before 0.5 tells no more than the elections that it saw.
function sinceOf({ leader_since: since, elections, leader, term }) {
  return since ?? elections.findLast((each) => each.leader === leader && each.term === term)?.at;
}

function heldFor(since) {
  if (!since) return "";
  // This clock may be behind the cluster's.
  const seconds = Math.max(1, Math.floor((now() - Date.parse(since)) / 1000));
  return `since ${localTime(since)}, for ${roundDuration(seconds * 1000)}`;
}

function pressing(node, cluster) {
  const { label, health } = stateOf(node, cluster);
  const found = concerns(node).map((each) => ({ ...each, id: node.id }));
  if (health === "bad") found.unshift({ id: node.id, name: "state", text: label, health });
  return found;
}

function mayAsk({ api }, call, subject, about) {
  return api.may(`Why${call}`) ? whyButton(api, subject, about) : null;
}
