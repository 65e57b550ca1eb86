// Who led when: a thread for each node, a pick across the time in which it led, and between them why
// the lead went over.

import { now } from "./clock.js";
import {
  button,
  count,
  h,
  localTime,
  reconcile,
  roundDuration,
  setText,
  svg,
  table,
} from "./dom.js";

const SHOWN = 6;
const LONGEST_MS = 3_600_000;
const SHORTEST_MS = 120_000;
const ROW = 22;
const COLUMNS = [
  "At",
  { name: "Term", number: true },
  "Leader",
  { name: "Leaderless", number: true },
  "Why",
];

export class Elections {
  constructor() {
    this.all = false;
    this.ids = h("ol", { class: "loom-ids", "aria-hidden": "true" });
    this.loom = svg("svg", { class: "loom", role: "img", width: "100%" });
    this.from = h("span");
    this.rows = h("tbody");
    this.more = button("", () => this.toggle(), "link");
    this.element = h(
      "section",
      { class: "elections card", "aria-labelledby": "elections-title" },
      h("h2", { id: "elections-title" }, "Elections"),
      h(
        "div",
        {},
        h("div", { class: "loom-frame" }, this.ids, this.loom),
        h(
          "p",
          { class: "loom-axis quiet", "aria-hidden": "true" },
          this.from,
          h("span", {}, "now"),
        ),
        table("List of elections", COLUMNS, this.rows),
        this.more,
      ),
    );
  }

  show(cluster) {
    this.cluster = cluster;
    this.draw(cluster);
    this.list(cluster.elections);
  }

  draw({ elections, nodes }) {
    const { reigns, from, to } = reignsOf(elections, now());
    const ids = nodes.map(({ id }) => id);
    setText(
      this.from,
      `${roundDuration(Math.round((to - from) / 1000) * 1000)} ago`.replace(" 0 s", ""),
    );
    reconcile(
      this.ids,
      ids,
      (id) => id,
      (id) => h("li", {}, id),
    );
    // A drawing that has not moved is left alone: what it says under the pointer stays.
    const share = (at) => `${(((at - from) / (to - from)) * 100).toFixed(1)}%`;
    const width = (reign) => `${(((reign.to - reign.from) / (to - from)) * 100).toFixed(1)}%`;
    const picks = reigns.map((reign) => ({ ...reign, x: share(reign.from), width: width(reign) }));
    const memo = JSON.stringify([
      ids,
      picks.map(({ x, width: w, leader, term }) => [x, w, leader, term]),
    ]);
    if (memo === this.memo) return;
    this.memo = memo;
    this.loom.setAttribute("height", String(ids.length * ROW));
    this.loom.setAttribute("aria-label", inWords(reigns));
    this.loom.replaceChildren(...threads(ids), ...picks.flatMap((pick) => weft(pick, ids)));
  }

  list(elections) {
    const newest = handovers(elections).toReversed();
    const shown = this.all ? newest : newest.slice(0, SHOWN);
    reconcile(this.rows, shown, ({ at, term, leader }) => `${at} ${term} ${leader}`, electionRow);
    this.more.hidden = newest.length <= SHOWN;
    setText(this.more, this.all ? "show the newest" : `show all ${count(newest.length)}`);
  }

  toggle() {
    this.all = !this.all;
    this.list(this.cluster.elections);
  }
}

// From what a node saw to who led from when to when, the newest hour of it; nobody's time has the
// leader null.
export function reignsOf(elections, nowMs) {
  const seen = elections
    .map((each) => ({ ...each, from: Date.parse(each.at) }))
    .sort((one, other) => one.from - other.from);
  // This clock may be behind the cluster's.
  const to = Math.max(nowMs, ...seen.map((each) => each.from));
  const age = seen.length ? to - seen[0].from : 0;
  const from = to - Math.min(Math.max(age, SHORTEST_MS), LONGEST_MS);
  const reigns = seen
    .map((each, at) => ({ ...each, to: seen[at + 1]?.from ?? to }))
    .filter((each) => each.to > from)
    .map((each) => ({ ...each, began: each.from >= from, from: Math.max(each.from, from) }));
  return { reigns, from, to };
}

// One row for each that led, with how long nobody did before; and for nobody, while that lasts.
export function handovers(elections) {
  const found = [];
  let vacant = null;
  for (const each of elections) {
    if (!each.leader) {
      vacant ??= each;
      continue;
    }
    const after = vacant && Date.parse(each.at) - Date.parse(vacant.at);
    // A node before 0.5 says why only of the one that went.
    const reason = vacant && each.reason === "elected" ? vacant.reason : each.reason;
    found.push({ ...each, after, reason });
    vacant = null;
  }
  return vacant ? [...found, vacant] : found;
}

function threads(ids) {
  return ids.map((_, row) => {
    const y = row * ROW + ROW / 2;
    return svg("line", { class: "loom-warp", x1: "0", x2: "100%", y1: y, y2: y });
  });
}

function weft({ leader, term, reason, at, x, width, began }, ids) {
  const title = () =>
    svg("title", {}, `${localTime(at)} · term ${term} · ${leader ?? "no leader"}: ${reason}`);
  const parts = [];
  const row = ids.indexOf(leader);
  if (row >= 0) {
    const place = { x, y: row * ROW + 4, width, height: ROW - 8 };
    parts.push(svg("rect", { class: "loom-pick", ...place, rx: 3 }, title()));
  } else {
    const place = { x, y: 0, width, height: ids.length * ROW };
    parts.push(svg("rect", { class: "loom-gap", ...place }, title()));
  }
  if (began) {
    parts.push(
      svg("line", { class: "loom-shed", x1: x, x2: x, y1: 0, y2: ids.length * ROW }, title()),
    );
  }
  return parts;
}

function inWords(reigns) {
  if (!reigns.length) return "No election was seen.";
  const last = reigns.at(-1);
  const now = last.leader ? `${last.leader} leads in term ${last.term}` : "there is no leader";
  return `${reigns.length} changes of leader in the time shown; now ${now}.`;
}

function electionRow({ at, term, leader, reason, after }) {
  return h(
    "tr",
    {},
    h("td", { title: at }, localTime(at)),
    h("td", { class: "number" }, count(term)),
    h("td", {}, leader ?? h("span", { class: "bad" }, "none")),
    h("td", { class: "number" }, after ? roundDuration(after) : ""),
    h("td", {}, reason),
  );
}
