// Who a run belongs to: its parent, its children, and the chain of runs that it goes on as.

import { workflowPath } from "./api.js";
import { bdi, count, h, localTime, pill, reconcile, setText, table } from "./dom.js";
import { Pace } from "./pace.js";
import { runLink } from "./runs.js";

const ASKED_MS = 3000;

export class FamilyView {
  constructor(api, ns) {
    this.api = api;
    this.ns = ns;
    this.pace = new Pace(ASKED_MS);
    // The cursors of the pages of children before this one.
    this.trail = [];
    this.cursor = "";
    this.parent = h("p", {});
    this.chain = h("ol", { class: "runs-chain" });
    this.chainTitle = h("h2", {}, "Continued as new");
    this.children = h("tbody");
    this.childrenTitle = h("h2", {});
    this.table = table("Children", ["Child", "Step", "Type", "Status", "Started"], this.children);
    this.earlier = h(
      "button",
      { type: "button", onclick: () => this.turn(this.trail.pop()) },
      "Back",
    );
    this.later = h("button", { type: "button", onclick: () => this.forth() }, "More children");
    this.pager = h("footer", { class: "pager" }, h("p"), this.earlier, this.later);
    this.element = h(
      "section",
      { class: "family", "aria-label": "Family", hidden: true },
      this.parent,
      this.chainTitle,
      this.chain,
      this.childrenTitle,
      this.table,
      this.pager,
    );
  }

  async update(run) {
    const key = [run.run_id, run.history_length, run.status, this.cursor].join();
    const family = await this.pace.ask(key, () => this.read(run));
    if (family) this.show(family, run);
  }

  // What an older node does not tell is taken from the run itself.
  async read(run) {
    if (!this.unknown) {
      try {
        const query = { run_id: run.run_id, cursor: this.cursor };
        return await this.api.get(workflowPath(run.workflow_id, "family"), query);
      } catch (error) {
        if (error.reason !== "ROUTE_NOT_FOUND") throw error;
        this.unknown = true;
      }
    }
    return familyOf(run);
  }

  show({ parent, children, chain, chain_more: more }, run) {
    reconcile(
      this.parent,
      parent ? [parent] : [],
      (each) => each.run_id,
      (each) =>
        h("span", {}, "Child of ", this.link(each), ` at step ${each.sequence} `, state(each)),
    );
    this.parent.hidden = !parent;
    const links = chain.length > 1 ? chain : [];
    this.chain.hidden = this.chainTitle.hidden = !links.length;
    reconcile(
      this.chain,
      links,
      (each) => each.run_id,
      (each) => this.chainLink(each, run),
    );
    this.chain.classList.toggle("older", Boolean(more?.older));
    this.chain.classList.toggle("newer", Boolean(more?.newer));
    const { items, total, next_cursor: next } = children;
    this.next = next;
    this.childrenTitle.hidden = this.table.hidden = !items.length && !this.cursor;
    setText(this.childrenTitle, `Children · ${count(total)}`);
    reconcile(
      this.children,
      items,
      (child) => child.sequence,
      (child) => this.row(child),
    );
    this.pager.hidden = !next && !this.cursor;
    this.earlier.disabled = !this.cursor;
    this.later.disabled = !next;
    this.element.hidden = !parent && !links.length && this.table.hidden;
  }

  chainLink(link, run) {
    const here = link.run_id === run.run_id;
    const text = bdi(link.run_id.slice(0, 8));
    const href = runLink({ workflow_id: run.workflow_id, run_id: link.run_id }, this.ns);
    return h(
      "li",
      { "aria-current": here && "true" },
      here ? h("strong", { class: "id" }, text) : h("a", { class: "id", href }, text),
      link.status ? pill(link.status) : null,
      link.started_at ? h("span", { class: "quiet" }, localTime(link.started_at)) : null,
    );
  }

  row(child) {
    const { step_name: name, sequence } = child;
    return h(
      "tr",
      {},
      h("td", {}, child.run_id ? this.link(child) : bdi(child.workflow_id, { class: "id" })),
      h("td", {}, sequence, " ", bdi(name ?? "")),
      h("td", {}, bdi(child.workflow_type ?? "")),
      h("td", {}, state(child)),
      h("td", { class: "moment" }, child.started_at ? localTime(child.started_at) : ""),
    );
  }

  link(run) {
    return h("a", { class: "id", href: runLink(run, this.ns) }, bdi(run.workflow_id));
  }

  turn(cursor = "") {
    this.cursor = cursor;
    this.onTurn?.();
  }

  forth() {
    this.trail.push(this.cursor);
    this.turn(this.next);
  }
}

// Of a run that is not kept only the names are known.
function state({ status, kept, run_id: runId }) {
  if (status) return pill(status);
  const said = !runId ? "not started yet" : kept === false ? "deleted" : "";
  return h("span", { class: "quiet" }, said);
}

// What a description alone says: the children by their steps, of the chain the neighbours.
export function familyOf(run) {
  const items = run.steps.filter((step) => step.kind === "CHILD" && step.workflow_id);
  const { run_id, status, started_at } = run;
  const before = run.continued_from_run_id;
  const after = run.continued_to_run_id;
  return {
    parent: run.parent ?? null,
    children: { items: items.map(childOf), total: items.length },
    chain: [
      before && { run_id: before },
      { run_id, status, started_at },
      after && { run_id: after },
    ].filter(Boolean),
  };
}

function childOf({ workflow_id, run_id, workflow_type, sequence, step_name, scheduled_at }) {
  return { workflow_id, run_id, workflow_type, sequence, step_name, started_at: scheduled_at };
}
