// Queues and workers: what waits where and how long, who asks for it, who has it.

import { bdi, count, h, localTime, reconcile, roundDuration, setText, table } from "./dom.js";
import { whyButton } from "./why.js";

const QUEUE_COLUMNS = [
  "Queue",
  "For",
  { name: "Waiting", number: true },
  { name: "Oldest", number: true },
  { name: "Leased", number: true },
  { name: "Leases missed", number: true },
  "Polled at",
  "",
];
const WORKER_COLUMNS = [
  "Worker",
  "Node",
  "Namespace",
  "Queues",
  { name: "Polls", number: true },
  { name: "Leases", number: true },
  "Last seen",
];
const OLD_MS = 60_000;

export class QueuesView {
  static every = 2000;

  constructor(shell, { query }) {
    this.shell = shell;
    this.filter = query;
    this.queues = h("tbody");
    this.workers = h("tbody");
    this.missing = h("p", { class: "banner", role: "status", hidden: true });
    this.noQueues = h("p", { class: "quiet" }, "Nothing waits, and nobody asks.");
    this.noWorkers = h("p", { class: "quiet" }, "No worker was seen lately.");
    this.search = h("input", {
      type: "search",
      placeholder: "Search queue, worker or namespace",
      "aria-label": "Search queue, worker or namespace",
      value: query.q,
    });
    this.search.addEventListener("input", () => {
      shell.setQuery({ ...this.filter, q: this.search.value.trim() });
    });
    this.element = h(
      "section",
      {},
      h("header", { class: "toolbar" }, h("h1", {}, "Queues"), this.search),
      this.missing,
      table("Queues", QUEUE_COLUMNS, this.queues),
      this.noQueues,
      h("h2", { class: "below" }, "Workers"),
      table("Workers", WORKER_COLUMNS, this.workers),
      this.noWorkers,
    );
  }

  get title() {
    return "Queues";
  }

  navigate({ query }) {
    this.filter = query;
    if (this.search.value.trim() !== (query.q ?? "")) this.search.value = query.q ?? "";
  }

  async update() {
    const { api } = this.shell;
    const [queues, workers] = await Promise.all([api.get("/api/queues"), api.get("/api/workers")]);
    const sought = matching(this.filter.q ?? "");
    const asked = queues.queues.filter(({ name, namespace }) => sought(name, namespace));
    const working = workers.workers.filter((each) =>
      sought(each.id, each.namespace, ...each.queues),
    );
    reconcile(this.queues, asked.sort(byNeed), keyOfQueue, (each) => this.queueRow(each), memoOf);
    reconcile(this.workers, working, keyOfWorker, workerRow);
    this.noQueues.hidden = asked.length > 0;
    this.noWorkers.hidden = working.length > 0;
    const said = incompleteness(queues);
    this.missing.hidden = !said;
    setText(this.missing, said);
  }

  queueRow(queue) {
    const {
      name,
      namespace,
      kind,
      queued,
      oldest_ms: oldest,
      leases,
      expired_total: expired,
    } = queue;
    const stuck = isStuck(queue);
    const ask = queued > 0 && this.shell.api.may("WhyQueue");
    const subject = { kind: "queue", name, namespace };
    const polled = pollersOf(queue);
    const nobody = h("span", { class: stuck ? "bad" : "quiet" }, "nobody");
    return h(
      "tr",
      {},
      h(
        "td",
        {},
        h("span", { class: "id" }, name),
        h("span", { class: "quiet" }, " in ", bdi(namespace)),
      ),
      h("td", {}, kind),
      h("td", { class: `number ${stuck ? "bad" : ""}` }, count(queued)),
      h("td", { class: `number ${oldest > OLD_MS ? "warn" : ""}` }, rounded(oldest)),
      h("td", { class: "number" }, count(leases)),
      h("td", { class: `number ${expired ? "warn" : ""}` }, count(expired)),
      h("td", {}, polled.length ? polled.map(pollerLine) : nobody),
      h("td", {}, ask ? whyButton(this.shell.api, subject, `queue ${name}`) : null),
    );
  }
}

// Those that nobody serves first, then those that wait longest.
function byNeed(one, other) {
  const need = (queue) => (isStuck(queue) ? Infinity : (queue.oldest_ms ?? -1));
  return need(other) - need(one) || one.name.localeCompare(other.name);
}

export function isStuck({ queued, pollers, leases }) {
  return queued > 0 && !pollers.length && !leases;
}

// [{types, nodes: "n1 ×3, n2 ×1"}]: who takes everything first, then who takes some types alone.
export function pollersOf({ pollers }) {
  const kinds = new Map();
  for (const { node, types, polls = 1 } of pollers) {
    const kind = types.toSorted().join(", ");
    const at = kinds.get(kind) ?? new Map();
    kinds.set(kind, at.set(node, (at.get(node) ?? 0) + polls));
  }
  return [...kinds]
    .sort(([one], [other]) => (one === "*" ? -1 : other === "*" ? 1 : one.localeCompare(other)))
    .map(([types, at]) => {
      const nodes = [...at].sort().map(([node, polls]) => `${node} ×${count(polls)}`);
      return { types: types === "*" ? "" : types, nodes: nodes.join(", ") };
    });
}

function pollerLine({ types, nodes }) {
  return h("div", {}, nodes, types ? h("span", { class: "quiet" }, " for ", bdi(types)) : null);
}

function workerRow({ id, node, namespace, queues, polls, leases, last_seen: seen }) {
  return h(
    "tr",
    {},
    h("td", { class: "id" }, id),
    h("td", {}, node),
    h("td", {}, namespace),
    h("td", {}, queues.join(", ")),
    h("td", { class: "number" }, count(polls)),
    h("td", { class: "number" }, count(leases)),
    h("td", { title: seen }, seen ? localTime(seen) : "–"),
  );
}

function keyOfQueue({ namespace, kind, name }) {
  return JSON.stringify([namespace, kind, name]);
}

function keyOfWorker({ namespace, id, node }) {
  return JSON.stringify([namespace, id, node]);
}

// What is shown: an age counts in seconds, and when a poll began is not.
function memoOf(queue) {
  return JSON.stringify({
    ...queue,
    oldest_ms: rounded(queue.oldest_ms),
    pollers: pollersOf(queue),
  });
}

function rounded(ms) {
  return Number.isFinite(ms) ? roundDuration(ms < 1000 ? ms : Math.floor(ms / 1000) * 1000) : "–";
}

function matching(text) {
  const sought = text.toLowerCase();
  return (...texts) => texts.some((each) => each.toLowerCase().includes(sought));
}

function incompleteness({ complete, missing, reasons = {}, truncated }) {
  if (complete) return "";
  const told = missing.map((node) => `${node}${reasons[node] ? ` (${reasons[node]})` : ""}`);
  if (truncated) told.push("there is more than can be shown");
  return told.length
    ? `Not told: ${told.join("; ")}.`
    : "The leader is still reading what it took over.";
}
