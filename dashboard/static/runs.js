// The list of runs: counted by status, filtered, searched, page by page.

import { bdi, count, duration, h, localTime, pill, reconcile, setText } from "./dom.js";
import { Pace } from "./pace.js";
import { link } from "./routes.js";
import { whyButton } from "./why.js";

const PAGE_SIZE = 50;
const SEARCH_PAUSE_MS = 250;
const COUNTS_MS = 2000;
const FILLING_MS = 1500;
// What is open comes first: that is what somebody looks for.
const STATUSES = [
  "RUNNING",
  "WAITING",
  "PAUSED",
  "UNKNOWN",
  "COMPLETED",
  "FAILED",
  "TIMED_OUT",
  "TERMINATED",
  "CANCELLED",
  "CONTINUED_AS_NEW",
];
const COLUMNS = ["Workflow", "Type", "Status", "Started", "Took", "Events"];
const ATTRIBUTE = "attr.";

export class RunsView {
  constructor(shell, { query }) {
    this.shell = shell;
    this.api = shell.api;
    // The cursors of the pages before this one, "" for the first.
    this.trail = [];
    this.listing = new Pace();
    this.counting = new Pace(COUNTS_MS);
    this.fields = new Map();
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Status" });
    this.attributes = h("div", { class: "chips", role: "group", "aria-label": "Attributes" });
    this.body = h("tbody");
    this.body.addEventListener("keydown", walkRows);
    this.note = h("p", { class: "quiet", role: "status" });
    this.absent = h("p");
    this.newest = h("button", { type: "button", onclick: () => this.turn("") }, "Newest");
    this.newer = h("button", { type: "button", onclick: () => this.back() }, "Newer");
    this.older = h("button", { type: "button", onclick: () => this.forth() }, "Older");
    this.element = h(
      "section",
      { "aria-label": "Runs", class: "runs-view" },
      this.toolbar(),
      this.chips,
      this.attributes,
      h(
        "div",
        { class: "scroll" },
        h(
          "table",
          { class: "runs" },
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              COLUMNS.map((name) => h("th", { scope: "col" }, name)),
            ),
          ),
          this.body,
        ),
      ),
      h("footer", { class: "pager" }, this.note, this.absent, this.newest, this.newer, this.older),
    );
    this.navigate({ query });
  }

  get title() {
    return "Runs";
  }

  // What is being typed stays, and the focus: only what is listed changes.
  navigate({ query }) {
    this.filter = query;
    if (!query.cursor) this.trail = [];
    for (const [name, input] of this.fields) {
      if (input !== document.activeElement) input.value = query[name] ?? "";
    }
    this.showChips();
    this.showAttributes();
  }

  toolbar() {
    const field = (name, label, kind = "text") => {
      const properties = { type: kind, "aria-label": label, placeholder: label, maxlength: 200 };
      const input = h("input", properties);
      input.addEventListener("input", () => {
        clearTimeout(this.typing);
        this.typing = setTimeout(() => this.change(this.typed()), SEARCH_PAUSE_MS);
      });
      this.fields.set(name, input);
      return input;
    };
    return h(
      "header",
      { class: "toolbar" },
      h("h1", {}, "Runs"),
      field("q", "Search id or type", "search"),
      field("type", "Type"),
      field("task_queue", "Queue"),
      this.attributeForm(),
      field("ns", "Namespace: default"),
    );
  }

  // Name and value become a filter of their own; there may be several.
  attributeForm() {
    const input = h("input", {
      type: "text",
      "aria-label": "Attribute, as name=value",
      placeholder: "Attribute: name=value",
      maxlength: 1000,
    });
    const form = h("form", { class: "attribute" }, input);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const wanted = attributeOf(input.value);
      input.setCustomValidity(wanted ? "" : "Write it as name=value");
      if (!form.reportValidity()) return;
      input.value = "";
      this.change({ [ATTRIBUTE + wanted.name]: wanted.value });
    });
    input.addEventListener("input", () => input.setCustomValidity(""));
    return form;
  }

  typed() {
    return Object.fromEntries([...this.fields].map(([name, input]) => [name, input.value.trim()]));
  }

  // What was typed last is not waited for in another view.
  close() {
    clearTimeout(this.typing);
  }

  change(changes) {
    this.shell.setQuery({ ...this.filter, cursor: "", ...changes });
  }

  toggleStatus(status) {
    const wanted = new Set(statusesOf(this.filter));
    if (!wanted.delete(status)) wanted.add(status);
    this.change({ status: STATUSES.filter((each) => wanted.has(each)).join(",") });
  }

  turn(cursor) {
    this.shell.setQuery({ ...this.filter, cursor });
  }

  back() {
    this.turn(this.trail.pop() ?? "");
  }

  forth() {
    this.trail.push(this.filter.cursor ?? "");
    this.turn(this.nextCursor);
  }

  async update() {
    await Promise.all([this.updateList(), this.updateCounts()]);
  }

  async updateList() {
    const filter = this.filter;
    const key = JSON.stringify(filter);
    const page = await this.listing.ask(key, () => this.readPage(filter));
    // Another filter was chosen meanwhile: its own answer is under way.
    if (!page || filter !== this.filter) return;
    reconcile(
      this.body,
      page.workflows,
      (run) => run.run_id,
      (run) => row(run, filter.ns),
    );
    this.shell.types = [...new Set(page.workflows.map((run) => run.workflow_type))].sort();
    this.nextCursor = page.next_cursor;
    setText(this.note, this.pageNote(page));
    this.askOfAbsent(page.workflows.length || page.next_cursor ? "" : filter.q);
    this.newest.disabled = this.newer.disabled = !filter.cursor;
    this.older.disabled = !page.next_cursor;
  }

  // A node works for a moment on a page, and may come to its end before the page is full: then it
  // is asked to go on, for as long as one likes to wait.
  async readPage({ ns: _ns, ...query }) {
    const until = performance.now() + FILLING_MS;
    const page = { workflows: [] };
    let cursor = query.cursor;
    do {
      const limit = PAGE_SIZE - page.workflows.length;
      const more = await this.api.get("/api/workflows", { ...query, cursor, limit });
      page.total ??= more.total;
      page.exact ??= more.total_exact !== false;
      page.workflows.push(...more.workflows);
      page.next_cursor = cursor = more.next_cursor;
    } while (cursor && page.workflows.length < PAGE_SIZE && performance.now() < until);
    return page;
  }

  async updateCounts() {
    const filter = this.filter;
    const { ns: _ns, status: _status, cursor: _cursor, ...query } = filter;
    if (this.uncounted) return;
    const key = JSON.stringify([query, filter.ns]);
    const counts = await this.counting
      .ask(key, () => this.api.get("/api/workflow-counts", query))
      .catch((error) => {
        // A node of an older release does not count: the chips filter all the same.
        if (error.reason !== "ROUTE_NOT_FOUND") throw error;
        this.uncounted = true;
        return null;
      });
    if (counts !== undefined && filter === this.filter) this.showCounts(counts);
  }

  showCounts(counts) {
    this.counts = counts;
    this.showChips();
  }

  showChips() {
    const { counts, filter } = this;
    const wanted = statusesOf(filter);
    const inexact = counts && !counts.exact ? "+" : "";
    const number = (value) => (counts ? `${count(value)}${inexact}` : "");
    const chips = [
      { status: "", label: "all", pressed: !wanted.length, number: number(counts?.total) },
      ...STATUSES.map((status) => ({
        status,
        label: status.toLowerCase().replaceAll("_", " "),
        pressed: wanted.includes(status),
        number: number(counts?.by_status[status] ?? 0),
      })),
    ];
    reconcile(
      this.chips,
      chips,
      (chip) => chip.status,
      (chip) => this.chip(chip),
      () => "",
    );
    chips.forEach((chip, at) => this.chips.children[at].show(chip));
  }

  // Changed in place: the numbers move, the focus stays.
  chip({ status, label }) {
    const figure = h("span", { class: "figure" });
    const look = status.toLowerCase().replaceAll("_", "-");
    const button = h("button", { type: "button", class: `chip ${look}` }, label, " ", figure);
    button.addEventListener("click", () =>
      status ? this.toggleStatus(status) : this.change({ status: "" }),
    );
    button.show = ({ pressed, number }) => {
      button.setAttribute("aria-pressed", pressed);
      button.classList.toggle("none", number === "0");
      button.classList.toggle("some", number !== "0" && number !== "");
      setText(figure, number);
    };
    return button;
  }

  showAttributes() {
    const wanted = Object.entries(this.filter).filter(([name]) => name.startsWith(ATTRIBUTE));
    reconcile(
      this.attributes,
      wanted,
      ([name]) => name,
      ([name, value]) => {
        const text = `${name.slice(ATTRIBUTE.length)} = ${value}`;
        return h(
          "button",
          {
            type: "button",
            class: "chip removable",
            "aria-label": `no longer only ${text}`,
            onclick: () => this.change({ [name]: "" }),
          },
          bdi(text),
          " ×",
        );
      },
    );
    this.attributes.hidden = !wanted.length;
  }

  // A run that is not there may have been refused, or be in another namespace.
  askOfAbsent(id) {
    const { api } = this.shell;
    reconcile(
      this.absent,
      id && api.may("WhyRun") ? [id] : [],
      (wanted) => wanted,
      (wanted) => whyButton(api, { kind: "run", workflow_id: wanted }, `no run ${wanted}`),
    );
  }

  pageNote({ workflows, total, exact, next_cursor: next }) {
    const { cursor, ns: _, ...filters } = this.filter;
    if (!workflows.length) {
      if (next) return "None among those looked through so far: there are older ones.";
      if (cursor) return "Nothing older.";
      const filtered = Object.values(filters).some(Boolean);
      return filtered ? "No run matches." : "Nothing has been started yet.";
    }
    const runs = `${count(total)}${exact ? "" : "+"} runs`;
    const page = this.trail.length + 1;
    if (!cursor) return runs;
    return this.trail.length ? `page ${count(page)}, ${runs}` : `a page further back, ${runs}`;
  }
}

export function statusesOf(filter) {
  return (filter.status ?? "").split(",").filter(Boolean);
}

export function attributeOf(text) {
  const [, name, value] = /^\s*([^=]*[^=\s])\s*=\s*(.*?)\s*$/.exec(text) ?? [];
  return name && value ? { name, value } : null;
}

export function runLink(run, namespace) {
  return link("run", [run.workflow_id, run.run_id], { ns: namespace });
}

function row(run, namespace) {
  const took = run.closed_at
    ? duration(Date.parse(run.closed_at) - Date.parse(run.started_at))
    : "";
  const attributes = Object.entries(run.search_attributes ?? {});
  return h(
    "tr",
    {},
    h(
      "td",
      {},
      h("a", { class: "id", href: runLink(run, namespace) }, bdi(run.workflow_id)),
      attributes.length
        ? h(
            "span",
            { class: "tags" },
            attributes.map(([name, value]) => bdi(`${name}=${value}`)),
          )
        : null,
    ),
    h("td", {}, bdi(run.workflow_type)),
    h("td", {}, pill(run.status)),
    h("td", { class: "moment", title: run.started_at }, localTime(run.started_at)),
    h("td", { class: "number" }, took),
    h("td", { class: "number" }, count(run.history_length)),
  );
}

// Up and down go from run to run.
function walkRows(event) {
  const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  const link = step && event.target.closest("tr")?.[step]?.querySelector("a");
  if (!link) return;
  event.preventDefault();
  link.focus();
}
