// Namespaces: how long each keeps closed runs, and how much may be started in it.

import { OPEN } from "./actions.js";
import { ask } from "./dialogs.js";
import { button, count, duration, h, localTime, reconcile, table } from "./dom.js";
import { link } from "./routes.js";

const HOUR_MS = 3_600_000;
const COLUMNS = [
  "Namespace",
  "Keeps closed runs",
  { name: "Open runs at most", number: true },
  { name: "Starts a second at most", number: true },
  "Created",
  "",
];

export class NamespacesView {
  static every = 5000;

  constructor(shell) {
    this.shell = shell;
    this.rows = h("tbody");
    const create = shell.api.may("CreateNamespace");
    this.element = h(
      "section",
      {},
      h(
        "header",
        { class: "toolbar" },
        h("h1", {}, "Namespaces"),
        create ? button("Create a namespace", () => this.create()) : null,
      ),
      table("Namespaces", COLUMNS, this.rows),
    );
  }

  get title() {
    return "Namespaces";
  }

  async update() {
    const { namespaces } = await this.shell.api.get("/api/namespaces");
    const bounded = namespaces.filter((each) => each.max_open_runs);
    await Promise.all(bounded.map((each) => this.fill(each)));
    reconcile(
      this.rows,
      namespaces,
      ({ name }) => name,
      (each) => this.row(each),
    );
  }

  // How much of its bound is used.
  async fill(namespace) {
    if (!this.shell.api.may("CountWorkflows")) return;
    const { by_status: runs } = await this.shell.api
      .within(namespace.name)
      .get("/api/workflow-counts");
    namespace.open_runs = [...OPEN].reduce((sum, status) => sum + (runs[status] ?? 0), 0);
  }

  row(namespace) {
    const { name, retention_ms: kept, created_at: created } = namespace;
    const { api } = this.shell;
    return h(
      "tr",
      {},
      h("td", {}, h("a", { class: "id", href: link("runs", [], { ns: name }) }, name)),
      h("td", {}, kept ? duration(kept) : "for ever"),
      h("td", { class: "number" }, openRuns(namespace)),
      h("td", { class: "number" }, bound(namespace.starts_per_second)),
      h("td", { title: created }, created ? localTime(created) : "–"),
      h(
        "td",
        {},
        h("div", { class: "row-actions" }, [
          api.may("UpdateNamespace") ? button("Retention", () => this.keep(namespace)) : null,
          api.may("SetNamespaceQuota") ? button("Quota", () => this.bound(namespace)) : null,
        ]),
      ),
    );
  }

  create() {
    return this.change({
      title: "Create a namespace",
      fields: [{ name: "name", label: "Name", required: true }, hours()],
      action: "Create",
      submit: ({ name, hours: kept }) =>
        this.shell.api.post("/api/namespaces", { name: name.trim(), retention_ms: inMs(kept) }),
    });
  }

  keep({ name, retention_ms: kept }) {
    return this.change({
      title: `How long does ${name} keep closed runs?`,
      fields: [hours(kept)],
      action: "Change",
      submit: ({ hours: given }) => this.shell.api.put(pathOf(name), { retention_ms: inMs(given) }),
    });
  }

  bound({ name, max_open_runs: open = 0, starts_per_second: starts = 0 }) {
    const field = (key, label, value) => ({ name: key, label, kind: "number", value, help: NONE });
    return this.change({
      title: `How much may be started in ${name}?`,
      fields: [
        field("max_open_runs", "Open runs at most", open),
        field("starts_per_second", "Starts a second at most", starts),
      ],
      action: "Change",
      submit: (given) =>
        this.shell.api.put(`${pathOf(name)}/quota`, {
          max_open_runs: Number(given.max_open_runs),
          starts_per_second: Number(given.starts_per_second),
        }),
    });
  }

  async change(dialog) {
    if (await ask(dialog)) await this.update();
  }
}

const NONE = "0: no bound";

function hours(ms = 0) {
  const value = ms / HOUR_MS;
  return { name: "hours", label: "Hours", kind: "number", step: "any", value, help: "0: for ever" };
}

function inMs(text) {
  return Math.round(Number(text) * HOUR_MS);
}

function pathOf(name) {
  return `/api/namespaces/${encodeURIComponent(name)}`;
}

// A bound that is reached is why a start is refused.
function openRuns({ max_open_runs: most, open_runs: open }) {
  if (!most || open === undefined) return bound(most);
  const text = `${count(open)} of ${count(most)}`;
  return h("span", { class: open >= most ? "bad" : undefined }, text);
}

function bound(number) {
  return number ? count(number) : "–";
}
