// "Why?": the chain from what is seen to the cause to act on. Each link has its evidence, the last
// one the next step. Any view asks with a subject: {kind: "run", workflow_id, run_id}, {kind: "task",
// workflow_id, run_id, step}, {kind: "queue", name, namespace}, {kind: "node", id}, {kind: "log"},
// {kind: "leader"}.

import { open } from "./dialogs.js";
import { bdi, count, h, localTime, reconcile, roundDuration, setText } from "./dom.js";
import { link, parse } from "./routes.js";

const AGAIN_MS = 3000;
const SEVERITIES = { problem: "problem", waiting: "waits", ok: "in order" };
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

export function whyPath({ kind, workflow_id: id, name, id: node }) {
  const segments = { run: [id], task: [id], queue: [name], node: [node], log: [], leader: [] };
  return ["/api/why", kind, ...segments[kind].map(encodeURIComponent)].join("/");
}

export function whyQuery({ run_id: runId, step }) {
  return { step, run_id: runId };
}

// The answer in place: update() asks again and changes what changed. `isProblem` says whether it will
// not go on by itself. `offer(cause, id)` makes the button that takes the last step, about the run
// `id`, where the page has one.
export class WhyPanel {
  constructor(api, subject, offer = offerWay) {
    this.offer = offer;
    this.api = subject.namespace === undefined ? api : api.within(subject.namespace);
    this.subject = subject;
    this.answer = h("p", { class: "answer", role: "status" }, "Asking…");
    this.chain = h("ol", { class: "chain" });
    this.seen = h("p", { class: "quiet seen" });
    this.element = h("div", { class: "why" }, this.answer, this.chain, this.seen);
  }

  async update() {
    let found;
    try {
      found = await this.api.get(whyPath(this.subject), whyQuery(this.subject));
    } catch (error) {
      // What was found out before stays in sight, with its time.
      setText(this.answer, refusalOf(error));
      this.isAnswered = false;
      return;
    }
    this.show(found);
    this.isAnswered = true;
  }

  show({ answer, links, subject, seen_by: node, applied_index: index }) {
    this.isProblem = links.some(({ severity }) => severity === "problem");
    setText(this.answer, answer);
    // A cause may come twice in a chain: a child that waits for a child of its own.
    const rows = links.map(({ cause }, at) => `${at} ${cause}`);
    reconcile(
      this.chain,
      rows,
      (row) => row,
      () => new LinkRow().element,
      () => "",
    );
    let about = subject?.workflow_id;
    links.forEach((each, at) => {
      const last = at === links.length - 1;
      about = each.evidence?.child ?? each.evidence?.workflow_id ?? about;
      const evidence = beyond(each.evidence, subject);
      const offered = last ? this.offer(each.cause, about, subject?.workflow_id) : null;
      this.chain.children[at].show({ ...each, evidence, offered }, last);
    });
    const time = localTime(new Date().toISOString());
    setText(this.seen, `as ${node} saw it at ${time}, entry ${count(index)}`);
  }
}

function refusalOf(error) {
  if (error.reason !== "ROUTE_NOT_FOUND") return error.message;
  return "This node is of a release that cannot tell why. Open the page from an upgraded one.";
}

// One link. Built once and then changed in place, so that its figures move and the focus does not.
class LinkRow {
  constructor() {
    this.severity = h("span", { class: "severity" });
    this.says = h("span", { class: "says" });
    this.cause = h("code", { class: "cause" });
    this.evidence = h("dl", { class: "evidence" });
    this.next = h("div", { class: "next" });
    this.element = h(
      "li",
      {},
      h("p", {}, this.severity, " ", this.says, " ", this.cause),
      this.evidence,
      this.next,
    );
    this.element.show = (found, last) => this.show(found, last);
  }

  show(found, last) {
    this.element.className = `${found.severity}${last ? " last" : ""}`;
    setText(this.severity, SEVERITIES[found.severity] ?? found.severity);
    setText(this.says, found.says);
    setText(this.cause, found.cause);
    reconcile(this.evidence, facts(found.evidence), (fact) => fact.name, factElement);
    reconcile(
      this.next,
      found.next ? [found.next] : [],
      (text) => `${text} ${found.offered?.textContent}`,
      (text) => nextElement(text, found.offered),
    );
  }
}

// The view of this page where the step is taken.
export function offerWay(cause, about, asked) {
  if (cause === "quota_exceeded") return way("Quotas of namespaces", link("namespaces"));
  if (!about || about === asked) return null;
  return way(["Go to ", bdi(about)], link("run", [about], pageQuery()));
}

function way(text, href) {
  return h("a", { class: "button", href }, text);
}

// The evidence as names and texts; nothing is left out but what is empty. A list of facts that have
// names themselves is one text for each.
export function facts(evidence) {
  return Object.entries(evidence)
    .filter(([, value]) => value !== null && value !== "" && !isEmpty(value))
    .map(([name, value]) => ({
      name,
      texts: factTexts(name, value),
      href: whereabouts(name, value),
    }));
}

// Where the page tells more of it.
function whereabouts(name, value) {
  if (name === "child" || name === "workflow_id") return link("run", [value], pageQuery());
  if (name === "queue") return link("queues", [], { q: value });
  return undefined;
}

// A child is of the namespace of the view.
function pageQuery() {
  return { ns: parse(location.hash).query.ns };
}

// What the question said already needs no repeating.
function beyond(evidence, subject) {
  const told = ([name, value]) => subject?.[name] === undefined || subject[name] !== value;
  return Object.fromEntries(Object.entries(evidence ?? {}).filter(told));
}

function isEmpty(value) {
  return typeof value === "object" && Object.keys(value).length === 0;
}

function label(name) {
  return name.replace(/_(ms|bytes)$/, "").replaceAll("_", " ");
}

function factTexts(name, value) {
  if (!Array.isArray(value)) return [factText(name, value)];
  if (value.some((each) => typeof each === "object"))
    return value.map((each) => factText(name, each));
  return [value.map((each) => factText(name, each)).join(", ")];
}

function factText(name, value) {
  if (typeof value === "number") {
    if (name.endsWith("_ms")) return roundDuration(value) || `${value} ms`;
    if (name === "max_attempts" && value === 0) return "no limit";
    return count(value) + (name.endsWith("_bytes") ? " bytes" : "");
  }
  if (typeof value === "string") return INSTANT.test(value) ? localTime(value) : value;
  if (value === null || typeof value !== "object") return String(value);
  return facts(value)
    .map((inner) => `${label(inner.name)} ${inner.texts.join(", ")}`)
    .join(" · ");
}

function factElement({ name, texts, href }) {
  const lines = texts.map((text) => h("div", {}, href ? h("a", { href }, bdi(text)) : bdi(text)));
  return h("div", {}, h("dt", {}, label(name)), h("dd", {}, lines));
}

// The next step; what stands in backquotes is to be typed, and can be taken along.
function nextElement(text, offered) {
  const parts = text.split("`").map((part, index) => (index % 2 ? command(part) : part));
  return h("p", {}, h("span", { class: "next-word" }, "Next"), " ", parts, " ", offered);
}

function command(text) {
  const code = h("code", { class: "command" }, text);
  // Browsers have a clipboard for pages of a secure origin alone; a part of a line is no command.
  if (!navigator.clipboard || !text.startsWith("raftflow ")) return code;
  const copy = h("button", { type: "button", class: "link", "aria-label": `copy ${text}` }, "copy");
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = "copied";
  });
  return h("span", { class: "typed" }, code, " ", copy);
}

// A button that opens the answer over whatever view it stands in.
export function whyButton(api, subject, about) {
  return h(
    "button",
    {
      type: "button",
      class: "link why-button",
      "aria-label": `why? ${about}`,
      onclick: () => openWhy(api, subject, about),
    },
    "why?",
  );
}

export async function openWhy(api, subject, about) {
  const panel = new WhyPanel(api, subject);
  const close = h("button", { type: "button", class: "primary" }, "Close");
  const title = h("h2", {}, "Why? ", bdi(about));
  const body = h("div", { class: "shown" }, title, panel.element, h("footer", {}, close));
  const dialog = h("dialog", { class: "why-dialog", "aria-label": `Why? ${about}` }, body);
  close.addEventListener("click", () => dialog.close());
  open(dialog);
  close.focus();
  while (dialog.open) {
    await panel.update();
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}
