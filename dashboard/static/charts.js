// The last hour as one node kept it: small charts that share an instant. Threads hang from the line
// as the warp does.

import { count, h, localTime, reconcile, setText, svg } from "./dom.js";

const WIDTH = 360;
const HEIGHT = 72;
const COLUMNS = 180;
// A node that has just begun is not drawn as one wide step.
const LEAST_SAMPLES = 24;

const PATH = "/api/cluster/history";

const CHARTS = [
  { title: "Commits", unit: "/s", counted: true, series: { commits: "commits" } },
  { title: "Commit latency", unit: "ms", series: { commit_p50_ms: "half", commit_p99_ms: "99 %" } },
  { title: "Requests", unit: "/s", counted: true, series: { requests: "requests" } },
  {
    title: "Queued tasks",
    unit: "",
    series: { workflow_queue: "workflow", activity_queue: "activity" },
  },
  { title: "Leases held", unit: "", series: { leases: "leases" } },
  { title: "Open runs", unit: "", series: { open_runs: "open" } },
  { title: "fsync, 99 %", unit: "ms", series: { fsync_p99_ms: "fsync" } },
  { title: "Loop lag", unit: "ms", series: { loop_lag_ms: "lag" } },
];

export class Charts {
  constructor(shell) {
    this.shell = shell;
    this.share = null;
    this.charts = CHARTS.map((kind) => new Chart(kind, (share) => this.point(share)));
    this.node = h("select", { "aria-label": "Whose hour" }, h("option", { value: "" }));
    this.node.addEventListener("change", () => shell.wake());
    this.instant = h("input", {
      type: "range",
      "aria-label": "Instant that is read",
      min: 0,
      max: 1000,
      step: 5,
      value: 1000,
    });
    this.instant.addEventListener("input", () => this.point(this.instant.value / 1000));
    this.when = h("output", { class: "quiet" });
    this.note = h("p", { class: "quiet" });
    this.grid = h(
      "div",
      { class: "charts", onpointerleave: () => this.point(null) },
      this.charts.map(({ element }) => element),
    );
    this.tools = h("div", { class: "hour-tools" }, this.when, this.instant, this.node);
    this.grid.hidden = this.tools.hidden = true;
    this.element = h(
      "section",
      { class: "hour" },
      h("header", { class: "toolbar" }, h("h2", {}, "The last hour"), this.tools),
      this.note,
      this.grid,
    );
  }

  // Each node has the whole picture; its own fsyncs and its loop are its own.
  async update() {
    const { cluster } = this.shell;
    if (!cluster) return;
    const here = { id: "", label: `${cluster.node}, this one` };
    const others = cluster.nodes.filter(({ id, http }) => http && id !== cluster.node);
    reconcile(
      this.node,
      [here, ...others],
      ({ id }) => id,
      optionOf,
      ({ id, label }) => label ?? id,
    );
    const history = await this.ask(others.find(({ id }) => id === this.node.value));
    this.grid.hidden = this.tools.hidden = !history;
    setText(
      this.note,
      history ? "" : `${cluster.node} keeps no history: it is of an older release.`,
    );
    if (history) this.show(history);
  }

  async ask(other) {
    const { api, tell } = this.shell;
    try {
      return await (other ? api.getAt(other.http, PATH) : api.get(PATH));
    } catch (error) {
      if (error.status === 404) return null;
      if (!other) throw error;
      tell(`${other.id} does not tell: ${error.message}`);
      this.node.value = "";
      return this.ask();
    }
  }

  show(history) {
    this.history = trimmed(history);
    this.charts.forEach((chart) => chart.draw(this.history));
    this.read();
  }

  point(share) {
    this.share = share;
    this.instant.value = String(Math.round((share ?? 1) * 1000));
    if (this.history) this.read();
  }

  // What each chart said at the instant, or says now.
  read() {
    const { length, from, every } = this.history;
    const at = Math.round((this.share ?? 1) * (length - 1));
    const time = () => localTime(new Date(from + at * every).toISOString());
    setText(this.when, `${this.history.node}, ${this.share === null ? "now" : time()}`);
    this.charts.forEach((chart) => chart.read(at, this.share));
  }
}

function optionOf({ id, label = id }) {
  return h("option", { value: id }, label);
}

class Chart {
  constructor({ title, unit, series, counted }, point) {
    this.unit = unit;
    this.counted = counted;
    this.title = title;
    this.series = Object.entries(series);
    this.now = h("p", { class: "chart-now" });
    this.most = h("span", { class: "chart-most quiet" });
    this.drawing = svg("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
    });
    this.cross = svg("line", { class: "chart-cross", y1: 0, y2: HEIGHT });
    this.drawing.addEventListener("pointermove", (event) => {
      const box = this.drawing.getBoundingClientRect();
      point(Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1));
    });
    this.element = h(
      "figure",
      { class: "chart card" },
      h("figcaption", {}, title),
      this.now,
      h("div", { class: "chart-plot" }, this.most, this.drawing),
    );
  }

  draw({ samples, every }) {
    // What is counted since the sample before is shown for a second.
    const told = (value) => (this.counted && value !== null ? (value * 1000) / every : value);
    this.values = this.series.map(([key, name]) => ({
      name,
      values: (samples[key] ?? []).map(told),
    }));
    const known = this.values.flatMap(({ values }) => values.filter(Number.isFinite));
    const top = roundedUp(Math.max(...known, 0));
    setText(this.most, known.length ? this.said(top) : "not known");
    const lines = this.values.flatMap(({ values }, order) => drawn(values, top, order));
    this.drawing.replaceChildren(...lines, this.cross);
    const peak = known.length
      ? `most ${this.said(Math.max(...known))} in the time shown`
      : "not known";
    this.drawing.setAttribute("aria-label", `${this.title}: ${peak}`);
  }

  read(at, share) {
    const x = (share ?? 1) * WIDTH;
    this.cross.setAttribute("x1", x);
    this.cross.setAttribute("x2", x);
    this.cross.classList.toggle("away", share === null);
    const several = this.values.length > 1;
    const parts = this.values.map(({ name, values }, order) => ({
      name: several ? name : "",
      order,
      text: Number.isFinite(values[at]) ? this.said(values[at]) : "–",
    }));
    reconcile(this.now, parts, ({ order }) => order, valueOf);
  }

  said(value) {
    const text =
      value >= 10 || Number.isInteger(value) ? count(Math.round(value)) : value.toFixed(1);
    return this.unit ? `${text} ${this.unit}` : text;
  }
}

function valueOf({ name, order, text }) {
  return h("span", { class: `series series-${order}` }, h("b", {}, text), name ? ` ${name}` : "");
}

// The line, and below the first one the threads.
function drawn(values, top, order) {
  const points = columns(values, COLUMNS).map((value, at, all) => ({
    x: ((at / Math.max(all.length - 1, 1)) * WIDTH).toFixed(1),
    y: value === null ? null : (HEIGHT - 1 - (value / top) * (HEIGHT - 4)).toFixed(1),
  }));
  const known = (at) => (points[at]?.y ?? null) !== null;
  // What stands alone is a dot.
  const line = points.map(({ x, y }, at) => {
    if (y === null) return "";
    if (known(at - 1)) return `L${x} ${y}`;
    return `M${x} ${y}${known(at + 1) ? "" : "h0.1"}`;
  });
  const hung = points.filter(({ y }) => y !== null).map(({ x, y }) => `M${x} ${HEIGHT}V${y}`);
  const path = (kind, parts) =>
    svg("path", { class: `${kind} series-${order}`, d: parts.join("") });
  return order === 0
    ? [path("chart-threads", hung), path("chart-line", line)]
    : [path("chart-line", line)];
}

// At most so many values, each the most of its stretch: a spike must not fall through.
export function columns(values, most) {
  const size = Math.max(1, Math.ceil(values.length / most));
  const found = [];
  for (let at = 0; at < values.length; at += size) {
    const known = values.slice(at, at + size).filter(Number.isFinite);
    found.push(known.length ? Math.max(...known) : null);
  }
  return found;
}

// A round number that is no less.
export function roundedUp(value) {
  if (value <= 1) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((each) => each * unit).find((each) => each >= value);
}

// Without the time before the node began.
export function trimmed({ node, every_ms: every, from, samples }) {
  const all = Object.values(samples);
  const length = Math.max(0, ...all.map((values) => values.length));
  const begins = all
    .map((values) => values.findIndex((value) => value !== null))
    .filter((at) => at >= 0);
  const first = Math.max(0, Math.min(...begins, length - LEAST_SAMPLES, length - 1));
  const cut = Object.entries(samples).map(([name, values]) => [name, values.slice(first)]);
  return {
    node,
    every,
    from: Date.parse(from) + first * every,
    length: length - first,
    samples: Object.fromEntries(cut),
  };
}
