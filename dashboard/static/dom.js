// Building the page. Text from outside becomes text nodes and nothing else: no HTML is ever parsed.

const SVG = "http://www.w3.org/2000/svg";

// h("a", {class: "id", href: "#/"}, "text", otherNode); a handler is {onclick: fn}.
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
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

// Makes `parent` show `items`, and leaves alone what has not changed: a click, a selection and the
// focus survive the update that happens each second. `memoOf` says what of an item is shown.
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
  if (wanted.length === parent.children.length && wanted.every((n, i) => n === parent.children[i])) {
    return;
  }
  // Unchanged nodes are not moved: taking one out would drop its focus.
  let position = parent.firstElementChild;
  for (const node of wanted) {
    const stale = old.get(node.dataset.key);
    if (stale && stale !== node) {
      if (position === stale) position = stale.nextElementSibling;
      stale.remove();
    }
    if (position === node) position = node.nextElementSibling;
    else parent.insertBefore(node, position);
  }
  while (position) {
    const next = position.nextElementSibling;
    position.remove();
    position = next;
  }
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// A table that a screen reader names, and that scrolls by itself where the screen is narrow. Each
// column is its name, or {name, number: true}.
export function table(label, columns, body, kind) {
  const heads = columns.map((column) =>
    h("th", { scope: "col", class: column.number && "number" }, column.name ?? column),
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

// An instant or an age is round: 5 s says more than 5.00 s.
export function roundDuration(ms) {
  return duration(ms).replace(/\.0+ s$/, " s");
}

export function localTime(iso) {
  const time = new Date(iso);
  if (Number.isNaN(time.getTime())) return iso || "";
  const sameDay = time.toDateString() === new Date().toDateString();
  const clock = time.toLocaleTimeString([], { hour12: false });
  return sameDay ? clock : `${time.toLocaleDateString()} ${clock}`;
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
      box.textContent = text;
      more.remove();
    });
    parts.push(more);
  }
  return h("div", { class: "payload" }, ...parts);
}
