// The list of runs: filter by status, search, page by page.

import { count, duration, h, localTime, pill, reconcile, setText } from "./dom.js";
import { link } from "./routes.js";

const PAGE_SIZE = 50;
const SEARCH_PAUSE_MS = 250;
const STATUSES = [
  "RUNNING",
  "WAITING",
  "COMPLETED",
  "FAILED",
  "TERMINATED",
  "CANCELLED",
  "TIMED_OUT",
  "CONTINUED_AS_NEW",
  "PAUSED",
  "UNKNOWN",
];

export class RunsView {
  constructor({ api, setQuery }, { query }) {
    this.api = api;
    this.filter = query;
    this.body = h("tbody");
    this.note = h("p", { class: "quiet", "aria-live": "polite" });
    this.newer = h("button", { type: "button", onclick: () => this.turn(-1) }, "Newer");
    this.older = h("button", { type: "button", onclick: () => this.turn(1) }, "Older");
    this.changeFilter = setQuery;
    this.element = h(
      "section",
      { "aria-label": "Runs" },
      this.toolbar(),
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
              ["Workflow", "Type", "Status", "Started", "Took", "Events"].map((name) =>
                h("th", { scope: "col" }, name),
              ),
            ),
          ),
          this.body,
        ),
      ),
      h("footer", { class: "pager" }, this.note, this.newer, this.older),
    );
  }

  get title() {
    return "Runs";
  }

  navigate({ query }) {
    // The search field keeps its focus: only what is listed changes.
    this.filter = query;
  }

  get offset() {
    return Number(this.filter.offset) || 0;
  }

  toolbar() {
    const search = h("input", {
      type: "search",
      placeholder: "Search id or type",
      "aria-label": "Search id or type",
      value: this.filter.q,
      maxlength: 200,
    });
    let pause;
    search.addEventListener("input", () => {
      clearTimeout(pause);
      pause = setTimeout(() => this.change({ q: search.value }), SEARCH_PAUSE_MS);
    });
    const status = h(
      "select",
      { "aria-label": "Status" },
      h("option", { value: "" }, "Any status"),
      STATUSES.map((each) => h("option", { value: each }, each)),
    );
    status.value = this.filter.status ?? "";
    status.addEventListener("change", () => this.change({ status: status.value }));
    const namespace = h("input", {
      type: "text",
      placeholder: "default",
      "aria-label": "Namespace",
      value: this.filter.ns,
      title: "Namespace",
    });
    namespace.addEventListener("change", () => this.change({ ns: namespace.value.trim() }));
    return h(
      "header",
      { class: "toolbar" },
      h("h1", {}, "Runs"),
      search,
      status,
      h("label", { class: "inline" }, "Namespace", namespace),
    );
  }

  change(changes) {
    this.changeFilter({ ...this.filter, offset: "", ...changes });
  }

  turn(pages) {
    const offset = offsetAfter(this.offset, this.body.children.length, pages);
    this.changeFilter({ ...this.filter, offset: offset ? String(offset) : "" });
  }

  async update() {
    const { q, status } = this.filter;
    const page = await this.api.get("/api/workflows", {
      q,
      status,
      limit: PAGE_SIZE,
      offset: this.offset || undefined,
    });
    const ns = this.filter.ns;
    reconcile(this.body, page.workflows, (run) => run.run_id, (run) => row(run, ns));
    const first = this.offset + 1;
    const last = this.offset + page.workflows.length;
    const total = `${count(page.total)}${page.total_exact === false ? "+" : ""}`;
    setText(this.note, page.workflows.length ? `${first}–${last} of ${total}` : this.emptyNote());
    this.newer.disabled = this.offset === 0;
    this.older.disabled = !page.next_cursor || !page.workflows.length;
  }

  emptyNote() {
    const filtered = this.filter.q || this.filter.status || this.offset;
    return filtered ? "No run matches." : "Nothing has been started yet.";
  }
}

// A page with large memos ends early: the next one begins after what was shown.
export function offsetAfter(offset, shown, pages) {
  return Math.max(0, offset + (pages > 0 ? shown : -PAGE_SIZE));
}

export function runLink(run, namespace) {
  return link("run", [run.workflow_id, run.run_id], { ns: namespace });
}

function row(run, namespace) {
  const took = run.closed_at ? duration(Date.parse(run.closed_at) - Date.parse(run.started_at)) : "";
  return h(
    "tr",
    {},
    h("td", {}, h("a", { class: "id", href: runLink(run, namespace) }, run.workflow_id)),
    h("td", {}, run.workflow_type),
    h("td", {}, pill(run.status)),
    h("td", { title: run.started_at }, localTime(run.started_at)),
    h("td", { class: "number" }, took),
    h("td", { class: "number" }, count(run.history_length)),
  );
}
