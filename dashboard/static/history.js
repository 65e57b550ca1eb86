// The raw history: every event with all its fields, searched as one types.

import { bdi, count, h, localTime, payload, reconcile, setText, table } from "./dom.js";
import { has, pick } from "./facts.js";

const SHOWN = 200;
const CLAUSE = 400;
const PAYLOADS = new Set(["input", "output", "data", "payload"]);

export class HistoryView {
  constructor() {
    this.events = [];
    this.most = SHOWN;
    this.texts = new WeakMap();
    this.title = h("summary", {}, "History");
    this.search = h("input", {
      type: "search",
      "aria-label": "Search the history",
      placeholder: "Search: any text, #12 for an event, step 3",
    });
    this.search.addEventListener("input", () => {
      this.most = SHOWN;
      this.draw();
    });
    this.found = h("p", { class: "quiet", role: "status" });
    this.more = h("button", { type: "button", class: "link" });
    this.more.addEventListener("click", () => {
      this.most *= 5;
      this.draw();
    });
    this.rows = h("tbody");
    this.element = h(
      "details",
      { class: "history" },
      this.title,
      h("div", { class: "toolbar" }, this.search, this.found),
      this.more,
      table(
        "Events",
        [{ name: "#", number: true }, "Time", "Event", "Details"],
        this.rows,
        "events",
      ),
    );
    this.element.addEventListener("toggle", () => this.draw());
  }

  // `length`: how many there are; a long history comes piece by piece.
  show(events, length) {
    this.events = events;
    this.length = length;
    this.draw();
  }

  showStep(sequence) {
    this.search.value = `step ${sequence}`;
    this.element.open = true;
    this.draw();
    this.element.scrollIntoView({ block: "start" });
    this.search.focus({ preventScroll: true });
  }

  draw() {
    const coming =
      this.length > this.events.length ? `, ${count(this.events.length)} of them read` : "";
    setText(this.title, `History · ${count(this.length)} ${this.length === 1 ? "event" : "events"}${coming}`);
    if (!this.element.open) return;
    const wanted = matcher(this.search.value);
    const matching = wanted
      ? this.events.filter((event) => wanted(event, this.textOf(event)))
      : this.events;
    const hidden = Math.max(0, matching.length - this.most);
    setText(this.found, wanted ? `${count(matching.length)} events match` : "");
    setText(this.more, `show earlier ones: ${count(hidden)} more`);
    this.more.hidden = hidden === 0;
    reconcile(
      this.rows,
      matching.slice(hidden),
      (event) => event.event_id,
      eventRow,
      () => "",
    );
  }

  // Of a long history each event is made a text once.
  textOf(event) {
    if (!this.texts.has(event)) this.texts.set(event, JSON.stringify(event).toLowerCase());
    return this.texts.get(event);
  }
}

// What a search means, null for nothing: "#12" is one event, "step 3" the events of a step, anything
// else a part of whatever an event says.
export function matcher(search) {
  const text = search.trim().toLowerCase();
  if (!text) return null;
  const [, sign, number] = /^(#|step )\s*(\d+)$/.exec(text) ?? [];
  if (sign === "#") return (event) => event.event_id === Number(number);
  if (sign) return (event) => event.sequence === Number(number);
  return (_, all) => all.includes(text);
}

// Folded: the fields in a clause. Opened: each by itself, payloads whole.
function eventRow(event) {
  const { event_id: id, time, type, ...rest } = event;
  const fields = Object.entries(rest).filter(([name, value]) => isSaid(name, value, rest));
  const clause = fields.map(([name, value]) => `${name}=${plain(value)}`).join("  ");
  const details = h(
    "details",
    {},
    h(
      "summary",
      {},
      clause.length > CLAUSE ? `${clause.slice(0, CLAUSE)}…` : clause || "nothing more",
    ),
  );
  details.addEventListener(
    "toggle",
    () =>
      details.append(
        h(
          "dl",
          { class: "facts" },
          fields.map(([name, value]) => field(rest, name, value)),
        ),
      ),
    { once: true },
  );
  return h(
    "tr",
    {},
    h("td", { class: "number" }, id),
    h("td", { class: "moment", title: time }, localTime(time)),
    h("td", {}, type),
    h("td", { class: "details" }, details),
  );
}

function isSaid(name, value, all) {
  if (PAYLOADS.has(name)) return value === null || value !== "" || has(all, `${name}_base64`);
  return value !== "" && value !== 0 && value !== null && plain(value) !== "{}";
}

function plain(value) {
  if (value === null) return "hidden";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function field(holder, name, value) {
  const shown = PAYLOADS.has(name) ? payload(pick(holder, name), name) : bdi(plain(value));
  return h("div", {}, h("dt", {}, name), h("dd", {}, shown));
}
