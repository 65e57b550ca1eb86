// Building the page. Text from outside becomes text nodes and nothing else: no HTML is ever parsed,
// and what would be unseen or turn the text around it is written out.

// As the command line writes it: Python's isprintable, and the escapes of its string literals.
const UNSEEN = /[\p{C}\p{Z}]/gu;
const NAMED = new Map([
  [" ", " "],
  ["\t", "\\t"],
  ["\n", "\\n"],
  ["\r", "\\r"],
]);

// Text whose control, format and invisible characters can be seen: "\u202e" for a right-to-left
// override. `lines` keeps line ends and tabs, for what is shown in lines of its own.
export function visible(text, { lines = false } = {}) {
  return String(text).replace(UNSEEN, (character) => {
    if (lines && (character === "\n" || character === "\t")) return character;
    return NAMED.get(character) ?? escaped(character.codePointAt(0));
  });
}

function escaped(code) {
  const hex = code.toString(16);
  if (code < 0x100) return `\\x${hex.padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}

const SVG = "http://www.w3.org/2000/svg";
const IN_LINES = new Set(["pre", "textarea"]);
// Attributes that are read or heard. Others are taken as they are: an address, what was typed.
const READ = new Set(["title", "aria-label", "alt", "placeholder"]);

// h("a", {class: "id", href: "#/"}, "text", otherNode); a handler is {onclick: fn}. Every text goes
// through visible(), so that no view can forget it.
export function h(tag, properties = {}, ...children) {
  return furnished(document.createElement(tag), properties, children);
}

// The same for drawings.
export function svg(tag, properties = {}, ...children) {
  return furnished(document.createElementNS(SVG, tag), properties, children);
}

function furnished(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (READ.has(name)) node.setAttribute(name, visible(value));
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  const lines = IN_LINES.has(node.localName);
  for (const child of children.flat()) {
    if (child === null || child === undefined) continue;
    node.append(child instanceof Node ? child : visible(child, { lines }));
  }
  return node;
}

// A name from outside within a sentence: its direction does not reach the words beside it.
export function bdi(text, properties = {}) {
  return h("bdi", properties, text);
}

// Makes `parent` show `items`, and leaves alone what has not changed: a click and a selection survive
// the update that happens each second, and the focus survives any. `memoOf` says what of an item is shown.
export function reconcile(parent, items, keyOf, build, memoOf = JSON.stringify) {
  const old = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  const wanted = items.map((item) => {
    const key = String(keyOf(item));
    const memo = memoOf(item);
    const existing = old.get(key);
    if (existing && existing.memo === memo) return existing;
    const node = build(item);
    node.dataset.key = key;
    node.memo = memo;
    return node;
  });
  if (
    wanted.length === parent.children.length &&
    wanted.every((n, i) => n === parent.children[i])
  ) {
    return;
  }
  // Unchanged nodes are not moved: taking one out would drop its focus.
  let position = parent.firstElementChild;
  for (const node of wanted) {
    const stale = old.get(node.dataset.key);
    const focused = stale && stale !== node ? focusIn(stale) : -1;
    if (stale && stale !== node) {
      if (position === stale) position = stale.nextElementSibling;
      stale.remove();
    }
    if (position === node) position = node.nextElementSibling;
    else parent.insertBefore(node, position);
    if (focused >= 0) focusable(node)[focused]?.focus({ preventScroll: true });
  }
  while (position) {
    const next = position.nextElementSibling;
    position.remove();
    position = next;
  }
}

// Which of its controls has the focus: what is built anew in its place gets it.
function focusIn(node) {
  return node.contains(document.activeElement)
    ? focusable(node).indexOf(document.activeElement)
    : -1;
}

function focusable(node) {
  return [...node.querySelectorAll("a[href], button, input, select, summary, [tabindex]")];
}

export function setText(node, text) {
  const shown = visible(text);
  if (node.textContent !== shown) node.textContent = shown;
}

// A table that a screen reader names, and that scrolls by itself where the screen is narrow. Each
// column is its name, or {name, number: true}; that of the buttons has none.
export function table(label, columns, body, kind) {
  const heads = columns.map((column) =>
    column === ""
      ? h("td", { class: "head" })
      : h("th", { scope: "col", class: column.number && "number" }, column.name ?? column),
  );
  return h(
    "div",
    { class: "scroll", role: "region", "aria-label": label, tabindex: "0" },
    h("table", { class: kind }, h("thead", {}, h("tr", {}, heads)), body),
  );
}

export function button(label, onclick, kind) {
  return h("button", { type: "button", class: kind, onclick }, label);
}

// `look` is a class of the stylesheet: that of a run's status, or good, calm, warn, bad.
export function pill(status, look = status.toLowerCase().replaceAll("_", "-")) {
  return h("span", { class: `pill ${look}` }, status);
}

export function duration(ms) {
  if (!Number.isFinite(ms) || ms < 0) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 2 : 1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

// An instant or an age is round: 5 s says more than 5.00 s, and 2 h more than 2 h 0 min.
export function roundDuration(ms) {
  return duration(ms)
    .replace(/\.0+ s$/, " s")
    .replace(/ 0 (s|min|h)$/, "");
}

// Digits alone: a locale's own format may bring marks that turn the text around it.
export function localTime(iso) {
  const time = new Date(iso);
  if (Number.isNaN(time.getTime())) return iso || "";
  const two = (number) => String(number).padStart(2, "0");
  const clock = [time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(":");
  if (time.toDateString() === new Date().toDateString()) return clock;
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${clock}`;
}

export function count(number) {
  return Number.isFinite(number) ? number.toLocaleString("en") : "–";
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(number) {
  if (!Number.isFinite(number)) return "–";
  const power = Math.min(Math.floor(Math.log2(Math.max(number, 1)) / 10), UNITS.length - 1);
  const value = number / 1024 ** power;
  return `${power && value < 10 ? value.toFixed(1) : Math.round(value)} ${UNITS[power]}`;
}

const SHOWN_CHARACTERS = 4000;

// A payload: its exact text, or a note and base64 where it is no text. Long ones on demand.
export function payload(holder, name) {
  if (holder[name] === null) return h("span", { class: "quiet" }, "hidden from this token");
  const encoded = holder[`${name}_base64`];
  const text = encoded ?? holder[name] ?? "";
  if (text === "") return h("span", { class: "quiet" }, "empty");
  const box = h("pre", { tabindex: "0" }, text.slice(0, SHOWN_CHARACTERS));
  const parts = [box];
  if (encoded !== undefined) parts.unshift(h("span", { class: "quiet" }, "binary, as base64"));
  if (text.length > SHOWN_CHARACTERS) {
    const more = h("button", { type: "button", class: "link" }, `show all ${count(text.length)}`);
    more.addEventListener("click", () => {
      box.textContent = visible(text, { lines: true });
      more.remove();
    });
    parts.push(more);
  }
  return h("div", { class: "payload" }, ...parts);
}
