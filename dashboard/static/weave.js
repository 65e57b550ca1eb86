// The time line as cloth: an overview of all picks side by side, and a row for each. The warp lies
// behind every row and comes to the front at each second crossing, the other one in the next row.

import { count, h, reconcile, roundDuration, setText, svg } from "./dom.js";
import { lay, StepRow } from "./step.js";
import { lanes, place, ticks, warp, windowed } from "./timeline.js";

const ROWS = 100;
const LANE = 7;
const SIEVES = {
  all: () => true,
  open: (pick) => pick.open,
  failed: (pick) => pick.status === "FAILED" || Boolean(pick.open && pick.last_error),
  retried: (pick) => pick.attempts > 1,
};

export class Weave {
  // `context` is what the rows need to know: the api, the namespace, the run.
  constructor(context) {
    this.context = context;
    this.sieve = "all";
    this.wanted = "";
    // The first row shown; the newest rows of a run that goes on, until somebody turns the page.
    this.first = null;
    this.window = null;
    this.rows = new Map();
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Which steps" });
    this.search = h("input", {
      type: "search",
      placeholder: "Search steps",
      "aria-label": "Search steps",
    });
    this.search.addEventListener("input", () => {
      this.wanted = this.search.value.toLowerCase();
      this.first = 0;
      this.draw();
    });
    this.cloth = svg("svg", { preserveAspectRatio: "none", role: "img" });
    this.frame = h("span", { class: "frame", hidden: true });
    this.overview = h("div", { class: "cloth" }, this.cloth, this.frame);
    this.overview.addEventListener("pointerdown", (event) => this.drag(event));
    this.axis = h("div", { class: "axis", "aria-hidden": "true" });
    this.list = h("ol", { class: "steps" });
    this.none = h("p", { class: "quiet" });
    this.pages = h("p", { class: "quiet", role: "status" });
    this.earlier = h(
      "button",
      { type: "button", onclick: () => this.turn(-ROWS) },
      "Earlier steps",
    );
    this.later = h("button", { type: "button", onclick: () => this.turn(ROWS) }, "Later steps");
    this.pager = h("footer", { class: "pager" }, this.pages, this.earlier, this.later);
    this.scale = h("p", { class: "quiet scale" });
    this.element = h(
      "div",
      { class: "timeline" },
      h("header", { class: "toolbar" }, this.chips, this.search, this.zoomButtons()),
      this.overview,
      this.list,
      this.none,
      this.axis,
      h("footer", { class: "legend" }, this.scale, legend()),
      this.pager,
    );
  }

  zoomButtons() {
    const button = (label, sign, change) =>
      h("button", { type: "button", "aria-label": label, title: label, onclick: change }, sign);
    this.whole = button("the whole run", "all", () => this.zoom(null));
    return h(
      "div",
      { class: "zoom", role: "group", "aria-label": "Time shown" },
      button("earlier", "←", () => this.move(-0.25)),
      button("later", "→", () => this.move(0.25)),
      button("less time, larger", "+", () => this.widen(0.5)),
      button("more time, smaller", "−", () => this.widen(2)),
      this.whole,
    );
  }

  show(cloth) {
    this.woven = cloth;
    this.draw();
  }

  move(share) {
    const { from, to } = this.spanShown();
    const by = (to - from) * share;
    this.zoom({ from: from + by, to: to + by });
  }

  widen(factor) {
    const { from, to } = this.spanShown();
    const half = ((to - from) * factor) / 2;
    const middle = (from + to) / 2;
    this.zoom({ from: middle - half, to: middle + half });
  }

  spanShown() {
    return this.window ? windowed(this.window, this.woven) : this.span();
  }

  span() {
    return { from: this.woven.start, to: this.woven.end };
  }

  zoom(wanted) {
    const whole = this.span();
    const next = wanted && windowed(wanted, this.woven);
    const all = !next || next.to - next.from >= whole.to - whole.from;
    this.window = all ? null : next;
    this.first = all ? null : 0;
    this.draw();
  }

  // A stretch of the overview, pulled with the pointer, is what the rows then show.
  drag(event) {
    if (event.button !== 0) return;
    const box = this.overview.getBoundingClientRect();
    const { start, end } = this.woven;
    const at = ({ clientX }) =>
      start + Math.min(Math.max((clientX - box.left) / box.width, 0), 1) * (end - start);
    const begun = at(event);
    const pull = (moved) => {
      const now = at(moved);
      const wide = (Math.abs(now - begun) / (end - start)) * box.width > 4;
      if (wide) this.zoom({ from: Math.min(begun, now), to: Math.max(begun, now) });
    };
    const release = () => {
      this.overview.removeEventListener("pointermove", pull);
      this.overview.removeEventListener("pointerup", release);
      this.overview.removeEventListener("pointercancel", release);
    };
    this.overview.setPointerCapture(event.pointerId);
    this.overview.addEventListener("pointermove", pull);
    this.overview.addEventListener("pointerup", release);
    this.overview.addEventListener("pointercancel", release);
  }

  turn(by) {
    this.first = Math.max(0, this.firstShown() + by);
    this.draw();
  }

  firstShown() {
    const last = Math.max(0, Math.ceil(this.matching.length / ROWS) - 1) * ROWS;
    return Math.min(this.first ?? (this.context.run.closed_at ? 0 : last), last);
  }

  draw() {
    const { picks, start } = this.woven;
    const shown = this.spanShown();
    this.matching = picks.filter(
      (pick) => SIEVES[this.sieve](pick) && this.finds(pick) && this.isWithin(pick, shown),
    );
    const first = this.firstShown();
    const rows = this.matching.slice(first, first + ROWS);
    this.drawWarp(shown, start);
    reconcile(
      this.list,
      rows,
      (pick) => pick.sequence,
      (pick) => this.row(pick),
      () => "",
    );
    rows.forEach((pick) => this.rows.get(pick.sequence).show(pick, shown, this.woven));
    const instants = picks.length ? ticks(shown, start) : [];
    reconcile(
      this.axis,
      instants,
      (ms) => ms,
      (ms) => tick(ms),
      () => "",
    );
    instants.forEach((ms, at) => move(this.axis.children[at], place(start + ms, shown)));
    this.drawOverview(shown);
    this.drawChips(picks);
    this.search.hidden = picks.length < 10;
    this.none.hidden = rows.length > 0;
    setText(this.none, picks.length ? "No step like that at that time." : this.context.run.closed_at ? "It had no steps." : "No step yet.");
    this.pager.hidden = this.matching.length <= ROWS;
    this.earlier.disabled = first === 0;
    this.later.disabled = first + ROWS >= this.matching.length;
    setText(
      this.pages,
      `${count(first + 1)}–${count(first + rows.length)} of ${count(this.matching.length)} steps`,
    );
    this.whole.disabled = !this.window;
  }

  // A window shows what was under way within it.
  isWithin({ from, to }, shown) {
    return !this.window || (from <= shown.to && to >= shown.from);
  }

  finds({ step_name: name, signal_name: signal, workflow_id: child, sequence }) {
    const { wanted } = this;
    if (!wanted) return true;
    return [name, signal, child, String(sequence)].some((text) =>
      text?.toLowerCase().includes(wanted),
    );
  }

  // One thread is a round unit of time, however far one looks.
  drawWarp(shown, start) {
    const { unit, width, first } = warp(shown, start);
    const style = this.element.style;
    style.setProperty("--unit", `${width * 100}%`);
    style.setProperty("--unit-at", `${shifted(first, width) * 100}%`);
    style.setProperty("--two-units", `${width * 200}%`);
    style.setProperty("--even-at", `${shifted(first / 2, width * 2) * 100}%`);
    style.setProperty("--odd-at", `${shifted((first + 1) / 2, width * 2) * 100}%`);
    setText(this.scale, `a thread each ${roundDuration(unit)}`);
  }

  drawOverview(shown) {
    const { picks, start, end, marks } = this.woven;
    const laid = lanes(picks);
    this.overview.hidden = laid.placed.length < 2;
    if (this.overview.hidden) return;
    const height = laid.count * LANE + 2;
    this.cloth.setAttribute("viewBox", `0 0 1000 ${height}`);
    this.overview.style.setProperty("--lanes", String(Math.min(laid.count, 16)));
    const x = (ms) => ((ms - start) / (end - start)) * 1000;
    const paths = new Map();
    const line = (what, d) => paths.set(what, (paths.get(what) ?? "") + d);
    for (const { pick, lane } of laid.placed) {
      const y = lane * LANE + LANE / 2 + 1;
      for (const { what, from, to } of pick.stretches) {
        const length = Math.max(x(to) - x(from), 1.5).toFixed(1);
        line(lookOf(pick, what), `M${x(from).toFixed(1)} ${y}h${length}`);
      }
    }
    for (const { what, at } of marks) line(`mark ${what}`, `M${x(at).toFixed(1)} 0v${height}`);
    const wanted = [...paths].map(([look, d]) => ({ look, d }));
    showPaths(this.cloth, wanted);
    this.cloth.setAttribute("aria-label", describeCloth(picks, marks));
    this.frame.hidden = !this.window;
    const whole = this.span();
    lay(this.frame, place(shown.from, whole), place(shown.to, whole));
  }

  drawChips(picks) {
    const chips = Object.entries(SIEVES).map(([sieve, sifts]) => ({
      sieve,
      number: picks.filter(sifts).length,
      pressed: sieve === this.sieve,
    }));
    reconcile(
      this.chips,
      chips,
      (chip) => chip.sieve,
      (chip) => this.chip(chip),
      () => "",
    );
    chips.forEach((chip, at) => this.chips.children[at].show(chip));
  }

  chip({ sieve }) {
    const figure = h("span", { class: "figure" });
    const choose = () => {
      this.sieve = sieve;
      this.first = sieve === "all" ? null : 0;
      this.draw();
    };
    const button = h(
      "button",
      { type: "button", class: "chip", onclick: choose },
      sieve,
      " ",
      figure,
    );
    button.show = ({ number, pressed }) => {
      setText(figure, count(number));
      button.setAttribute("aria-pressed", pressed);
      button.classList.toggle("none", number === 0);
    };
    return button;
  }

  row(pick) {
    const row = this.rows.get(pick.sequence) ?? new StepRow(this.context);
    this.rows.set(pick.sequence, row);
    return row.element;
  }
}

// What a percentage means for the position of a background: it is of the room beside the image.
function shifted(first, width) {
  return width >= 1 ? 0 : (first * width) / (1 - width);
}

export function lookOf(pick, what) {
  const outcome = pick.open ? "open" : pick.status.toLowerCase();
  return `${what} ${outcome}`;
}

// For who cannot see the picture: what it shows at a glance.
export function describeCloth(picks, marks) {
  const most = picks.reduce((all, pick) => Math.max(all, pick.overlaps + 1), 0);
  const parts = [
    `${count(picks.length)} steps`,
    most > 1 ? `one of them together with ${count(most - 1)} others` : "one after the other",
    `${count(picks.filter((pick) => pick.open).length)} open`,
    `${count(picks.filter((pick) => pick.status === "FAILED").length)} failed`,
    marks.length ? `${count(marks.length)} signals and requests to cancel` : null,
  ];
  return `Overview: ${parts.filter(Boolean).join(", ")}`;
}

function showPaths(cloth, wanted) {
  while (cloth.children.length > wanted.length) cloth.lastChild.remove();
  while (cloth.children.length < wanted.length) cloth.append(svg("path"));
  wanted.forEach(({ look, d }, at) => {
    const path = cloth.children[at];
    if (path.getAttribute("class") !== look) path.setAttribute("class", look);
    if (path.getAttribute("d") !== d) path.setAttribute("d", d);
  });
}

function move(element, at) {
  element.style.left = `${at * 100}%`;
}

function tick(ms) {
  return h("span", {}, ms === 0 ? "0" : roundDuration(ms));
}

function legend() {
  const items = [
    ["wait", "queued"],
    ["tries", "earlier attempts"],
    ["work", "at work"],
    ["timer", "timer"],
    ["signal", "signal"],
    ["child", "child"],
    ["work failed", "failed"],
  ];
  return h(
    "ul",
    { class: "looks" },
    items.map(([look, text]) => h("li", {}, h("span", { class: `pick ${look}` }), text)),
  );
}
