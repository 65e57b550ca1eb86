// The audit log: who changed what. Filtered, page by page, and exported as the command line does.

import { button, count, h, localTime, reconcile, setText, table } from "./dom.js";
import { link } from "./routes.js";

const PAGE_SIZE = 100;
const EXPORT_PAGE = 500;
// A browser holds the file in memory.
const EXPORT_MOST = 200_000;
const TYPING_PAUSE_MS = 300;
const FILTERS = [
  { name: "actor", label: "Actor" },
  { name: "call", label: "Call" },
  { name: "namespace", label: "Namespace" },
  { name: "target", label: "Target" },
  { name: "outcome", label: "Outcome" },
  { name: "after", label: "From", type: "datetime-local" },
  { name: "before", label: "To", type: "datetime-local" },
];
const COLUMNS = ["At", "Who", "Call", "Target", "Outcome", "Node", "Address"];

export class AuditView {
  static every = 5000;

  constructor(shell, { query }) {
    this.shell = shell;
    this.filter = query;
    // The cursors of the pages that led here; the first page has none.
    this.cursors = [];
    this.rows = h("tbody");
    this.note = h("p", { class: "quiet", role: "status" });
    this.newer = button("Newer", () => this.turn(this.cursors.slice(0, -1)));
    this.older = button("Older", () => this.turn([...this.cursors, this.next]));
    this.exporting = button("Export", () => this.download());
    this.inputs = FILTERS.map((each) => this.input(each));
    this.element = h(
      "section",
      {},
      h("header", { class: "toolbar" }, h("h1", {}, "Audit"), this.exporting),
      h(
        "form",
        { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
        FILTERS.map(({ label }, at) => h("label", {}, label, this.inputs[at])),
        button("Clear", () => shell.setQuery({}), "link"),
      ),
      table("Audit log", COLUMNS, this.rows),
      h("footer", { class: "pager" }, this.note, this.newer, this.older),
    );
    this.fill();
  }

  get title() {
    return "Audit";
  }

  navigate({ query }) {
    this.filter = query;
    this.cursors = [];
    this.fill();
  }

  input({ name, type = "search" }) {
    const input = h("input", { type, name, autocomplete: "off", spellcheck: "false" });
    let pause;
    input.addEventListener("input", () => {
      clearTimeout(pause);
      pause = setTimeout(() => {
        this.shell.setQuery({ ...this.filter, [name]: input.value.trim() });
      }, TYPING_PAUSE_MS);
    });
    return input;
  }

  // What the address says, without disturbing who is typing it.
  fill() {
    FILTERS.forEach(({ name }, at) => {
      const value = this.filter[name] ?? "";
      if (this.inputs[at].value.trim() !== value) this.inputs[at].value = value;
    });
  }

  turn(cursors) {
    this.cursors = cursors;
    this.shell.wake();
  }

  async update() {
    const cursor = this.cursors.at(-1);
    const query = { ...asked(this.filter), limit: PAGE_SIZE, cursor };
    const { entries, next_cursor: next } = await this.shell.api.get("/api/audit", query);
    this.next = next;
    reconcile(this.rows, entries, ({ id }) => id, row);
    this.newer.disabled = !this.cursors.length;
    this.older.disabled = !next;
    setText(this.note, entries.length ? `page ${this.cursors.length + 1}` : "No entry matches.");
  }

  // One JSON object a line, oldest first: what `raftflow audit export` writes.
  async download() {
    const { api, tell } = this.shell;
    this.exporting.disabled = true;
    try {
      const lines = [];
      let cursor = "";
      do {
        const query = { ...asked(this.filter), order: "oldest", limit: EXPORT_PAGE, cursor };
        const page = await api.get("/api/audit", query);
        lines.push(...page.entries.map((entry) => `${JSON.stringify(entry)}\n`));
        setText(this.exporting, `Export: ${count(lines.length)}`);
        cursor = page.next_cursor;
      } while (cursor && lines.length < EXPORT_MOST);
      save("audit.jsonl", new Blob(lines, { type: "application/jsonl" }));
      const rest = cursor ? ", and there are more: raftflow audit export takes them all" : "";
      tell(`${count(lines.length)} entries exported${rest}.`);
    } catch (error) {
      tell(`Nothing was exported: ${error.message}`);
    } finally {
      this.exporting.disabled = false;
      setText(this.exporting, "Export");
    }
  }
}

// The inputs hold times of this clock's zone, the API takes UTC.
export function asked(filter) {
  const given = { ...filter };
  for (const name of ["after", "before"]) {
    const time = new Date(filter[name] ?? "");
    given[name] = Number.isNaN(time.getTime()) ? "" : time.toISOString();
  }
  return given;
}

function save(name, blob) {
  const href = URL.createObjectURL(blob);
  h("a", { href, download: name }).click();
  // The browser has taken it by then.
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

function row(entry) {
  const { actor, role, call, namespace, target, run_id: run, outcome, detail } = entry;
  const spaces = { ns: namespace };
  const what = run
    ? h("a", { class: "id", href: link("run", [target, run], spaces) }, target)
    : target;
  return h(
    "tr",
    {},
    h("td", { title: entry.at }, localTime(entry.at)),
    h("td", {}, h("span", { class: "id" }, actor), h("span", { class: "quiet" }, ` ${role}`)),
    h("td", {}, call),
    h("td", {}, what ?? "", namespace ? h("span", { class: "quiet" }, ` in ${namespace}`) : null),
    h(
      "td",
      { class: outcome === "OK" ? null : "warn" },
      [outcome, detail].filter(Boolean).join(": "),
    ),
    h("td", {}, entry.node),
    h("td", { class: "mono" }, entry.address),
  );
}
