// Tokens and the sessions opened with them: mint, which shows the token once, and revoke.

import { ask, showing } from "./dialogs.js";
import { button, h, localTime, pill, reconcile, setText, table } from "./dom.js";
import { link } from "./routes.js";

const DAY_MS = 86_400_000;
const COLUMNS = ["Name", "Id", "Role", "Namespaces", "Payloads", "Status", "Created", "Ends", ""];
const LOOKS = { good: "good", revoked: "calm", expired: "warn" };

export class TokensView {
  static every = 5000;

  constructor(shell) {
    this.shell = shell;
    this.all = [];
    this.rows = h("tbody");
    this.note = h("p", { class: "quiet", role: "status" });
    this.sessions = choice("sessions", () => this.show());
    this.ended = choice("those that are over", () => this.show());
    const mint = shell.api.may("MintToken");
    this.element = h(
      "section",
      {},
      h(
        "header",
        { class: "toolbar" },
        h("h1", {}, "Tokens"),
        this.sessions.element,
        this.ended.element,
        mint ? button("Mint a token", () => this.mint(), "primary") : null,
      ),
      table("Tokens", COLUMNS, this.rows),
      this.note,
    );
  }

  get title() {
    return "Tokens";
  }

  async update() {
    this.all = (await this.shell.api.get("/api/tokens")).tokens;
    this.show();
  }

  show() {
    const shown = this.all
      .filter((each) => this.sessions.on || !each.parent)
      .filter((each) => this.ended.on || each.status === "good")
      .toReversed();
    reconcile(
      this.rows,
      shown,
      ({ id }) => id,
      (each) => this.row(each),
    );
    const hidden = this.all.length - shown.length;
    const none = "No token was minted: those of the token file are not listed.";
    setText(this.note, this.all.length ? `${shown.length} shown, ${hidden} not.` : none);
  }

  row(token) {
    const { id, name, role, namespaces, sees_payloads: sees, status, parent } = token;
    const revoke = status === "good" && this.shell.api.may("RevokeToken");
    return h(
      "tr",
      {},
      h("td", {}, name, parent ? h("span", { class: "quiet" }, ` (session of ${parent})`) : null),
      h("td", {}, h("a", { class: "id", href: link("audit", [], { actor: id }) }, id)),
      h("td", {}, role),
      h("td", {}, namespaces.length ? namespaces.join(", ") : "all"),
      h("td", {}, sees ? "seen" : "hidden"),
      h("td", {}, pill(status, LOOKS[status] ?? "bad")),
      h("td", { title: token.created_at }, localTime(token.created_at)),
      h("td", { title: token.expires_at }, token.expires_at ? localTime(token.expires_at) : "–"),
      h("td", {}, revoke ? button("Revoke", () => this.revoke(token), "danger") : null),
    );
  }

  async mint() {
    const { api } = this.shell;
    let minted;
    const done = await ask({
      title: "Mint a token",
      fields: [
        { name: "name", label: "Name", required: true, hint: "ci" },
        { name: "role", label: "Role", kind: "select", options: ROLES, value: "viewer" },
        {
          name: "namespaces",
          label: "Namespaces",
          hint: "all",
          help: "separated by commas; without any it is for all",
        },
        { name: "days", label: "Good for days", kind: "number", value: 90, help: FOR_EVER },
        { name: "sees_payloads", label: "Sees payloads", kind: "check" },
      ],
      action: "Mint",
      submit: async ({ name, role, namespaces, days, sees_payloads }) => {
        minted = await api.post("/api/tokens", {
          name: name.trim(),
          role,
          namespaces: namespaces.split(/[\s,]+/).filter(Boolean),
          lifetime_ms: Math.round(Number(days) * DAY_MS),
          sees_payloads,
        });
      },
    });
    if (!done) return;
    await showToken(minted);
    await this.update();
  }

  async revoke({ id, name }) {
    const { api, tell } = this.shell;
    const done = await ask({
      title: `Revoke ${name}?`,
      text: "It is good for nothing from then on, nor are the sessions opened with it. There is no way back.",
      action: "Revoke",
      danger: true,
      submit: async () => {
        const path = `/api/tokens/${encodeURIComponent(id)}`;
        const { not_yet: late } = await api.change("DELETE", path);
        tell(
          late.length
            ? `Revoked; ${late.join(", ")} had not heard of it yet.`
            : "Revoked, on all nodes.",
        );
      },
    });
    if (done) await this.update();
  }
}

const FOR_EVER = "0: until it is revoked";
const ROLES = [
  { value: "viewer", label: "viewer: looks" },
  { value: "user", label: "user: starts, signals, ends runs" },
  { value: "worker", label: "worker: takes tasks" },
  { value: "admin", label: "admin: everything" },
];

// The one time that it can be seen.
function showToken({ token, name }) {
  const text = h("pre", { tabindex: "0", class: "secret" }, token);
  const said = h("p", { role: "status" });
  const copy = button("Copy", async () => {
    // Over plain HTTP a browser lets no page copy: then what is selected can be.
    getSelection().selectAllChildren(text);
    await navigator.clipboard?.writeText(token);
    setText(said, navigator.clipboard ? "Copied." : "Selected: copy it with the keyboard.");
  });
  const told = h("p", {}, "This is the token. It is shown once, here, and kept nowhere.");
  return showing({ title: `Token ${name}`, content: [told, text, said], extra: [copy] });
}

function choice(label, changed) {
  const box = h("input", { type: "checkbox", onchange: changed });
  return {
    element: h("label", { class: "inline" }, box, label),
    get on() {
      return box.checked;
    },
  };
}
