// What an admin does with nodes: transfer leadership, add, remove, snapshot.

import { ask, showing } from "./dialogs.js";
import { button, bytes, count, h } from "./dom.js";

// The buttons of one node.
export function actionsOf(shell, node, cluster) {
  const { api } = shell;
  const member = node.member !== "removed";
  const votes = node.member === "voter" || node.member === undefined;
  const leads = node.id === cluster.leader;
  const answers = node.connected !== false && node.reachable !== false;
  return [
    votes &&
      cluster.leader &&
      !leads &&
      answers &&
      api.may("TransferLeadership") &&
      button("Make leader", () => transfer(shell, node.id)),
    member && answers && api.may("SnapshotNode") && button("Snapshot", () => snapshot(shell, node)),
    member && cluster.leader && api.may("RemoveNode") && button("Remove", () => remove(shell, node, leads), "danger"),
  ].filter(Boolean);
}

export function transfer(shell, to = "") {
  const { cluster } = shell;
  const others = (cluster?.nodes ?? [])
    .filter((node) => node.member === "voter" && node.id !== cluster.leader)
    .map((node) => node.id);
  const options = [{ value: "", label: "the one that is furthest" }, ...others];
  return ask({
    title: "Transfer leadership?",
    text: `${cluster?.leader ?? "The leader"} hands over once the other has its whole log; calls wait for that moment.`,
    fields: [{ name: "to", label: "To", kind: "select", options, value: to }],
    action: "Transfer",
    submit: async ({ to: chosen }) => {
      const wanted = chosen ? { to: chosen } : {};
      const { leader } = await shell.api.change("POST", "/api/cluster/transfer", wanted);
      shell.tell(`${leader} leads.`);
      shell.wake();
    },
  });
}

export async function addNode(shell) {
  let added;
  const done = await ask({
    title: "Add a node",
    text: "It gets the log once it runs, and votes once it has caught up.",
    fields: [
      { name: "id", label: "Id", required: true, hint: "n4" },
      {
        name: "raft",
        label: "Raft address",
        required: true,
        hint: "10.0.0.4:9233",
        help: "where the other nodes reach it",
      },
      {
        name: "as",
        label: "As",
        kind: "select",
        options: [
          { value: "voter", label: "voter" },
          { value: "api", label: "api: serves, and never votes" },
        ],
      },
    ],
    action: "Add",
    submit: async ({ id, raft, as }) => {
      // A node before 0.4 knows voters alone.
      const kind = as === "voter" ? {} : { as };
      const given = { id: id.trim(), raft: raft.trim(), ...kind };
      added = await shell.api.change("POST", "/api/cluster/nodes", given);
      shell.wake();
    },
  });
  if (!done) return;
  await showing({
    title: `${added.id} belongs to the cluster`,
    content: [
      h("p", {}, "Start it on its machine, with a data directory and addresses of its own:"),
      h("pre", { tabindex: "0" }, serveLine(shell.cluster, added)),
    ],
  });
}

// As `raftflow node add` prints it.
export function serveLine({ cluster_id: cluster, nodes }, { id, raft }) {
  const join = nodes
    .filter((each) => each.member === "voter" && each.id !== id)
    .map((each) => `${each.id}=${each.raft}`)
    .join(",");
  return `raftflow serve --node-id ${id} --raft-addr ${raft} --cluster-id ${cluster} --join ${join}`;
}

function remove(shell, node, leads) {
  return ask({
    title: `Remove ${node.id} from the cluster?`,
    text: leads
      ? "It leads: another node is elected. Its id and its data are of no use to this cluster afterwards."
      : "Its id and its data are of no use to this cluster afterwards.",
    action: `Remove ${node.id}`,
    danger: true,
    submit: async () => {
      await shell.api.change("DELETE", `/api/cluster/nodes/${encodeURIComponent(node.id)}`);
      shell.tell(`${node.id} was removed.`);
      shell.wake();
    },
  });
}

function snapshot(shell, node) {
  return ask({
    title: `Snapshot ${node.id} now?`,
    text: "It writes its state to its store and drops the log behind it. It goes on serving.",
    action: "Snapshot",
    submit: async () => {
      const path = `/api/cluster/nodes/${encodeURIComponent(node.id)}/snapshot`;
      const { index, bytes_freed: freed } = await shell.api.change("POST", path);
      shell.tell(`${node.id} has a snapshot at ${count(index)}; ${bytes(freed)} of log freed.`);
      shell.wake();
    },
  });
}
