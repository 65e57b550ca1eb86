// Dialogs: start a workflow, send a signal, confirm what cannot be undone. Each resolves when the
// server has answered, and shows the server's error without losing what was typed.
//
// A field: {name, label, kind?, value?, hint?, required?, help?}. `kind`: "area", "check", "secret",
// "number" (whole, unless `step` says otherwise), "select" (with `options`, texts or {value, label}),
// or a line of text, with `choices` to take one from.

import { Unreachable, requestId } from "./api.js";
import { bdi, h, setText } from "./dom.js";

// `submit(values, requestId)`: when nobody answered, what is sent again unchanged is the same request.
// `subject`: what it is done to. A dialog belongs to its view and goes with it, unless it `stays`.
export function ask({ title, subject, text, fields = [], action, danger, stays, submit }) {
  return new Promise((resolve) => {
    const error = h("p", { class: "error", role: "alert", hidden: true });
    const go = h("button", { type: "submit", class: danger ? "danger" : "primary" }, action);
    const form = h(
      "form",
      {},
      h("h2", {}, title),
      subject ? h("p", { class: "id" }, bdi(subject)) : null,
      text ? h("p", {}, text) : null,
      fields.map(control),
      error,
      h("footer", {}, h("button", { type: "button", onclick: () => dialog.close() }, "Close"), go),
    );
    let done = false;
    let unanswered = null;
    const dialog = h("dialog", { "aria-label": title }, form);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      go.disabled = true;
      error.hidden = true;
      const given = values(form, fields);
      const text = JSON.stringify(given);
      const id = unanswered?.text === text ? unanswered.id : requestId();
      try {
        await submit(given, id);
        done = true;
        dialog.close();
      } catch (problem) {
        unanswered = problem instanceof Unreachable ? { text, id } : null;
        setText(error, problem.message);
        error.hidden = false;
        go.disabled = false;
      }
    });
    dialog.addEventListener("close", () => resolve(done));
    open(dialog, { stays });
  });
}

// Shows `content`; resolves when it is closed. `extra` buttons stand beside the one that closes it.
export function showing({ title, content, extra = [] }) {
  return new Promise((resolve) => {
    const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
    const dialog = h(
      "dialog",
      { "aria-label": title },
      h("div", { class: "shown" }, h("h2", {}, title), content, h("footer", {}, extra, close)),
    );
    dialog.addEventListener("close", resolve);
    open(dialog);
  });
}

// The focus goes back by itself to where it was.
export function open(dialog, { stays = false } = {}) {
  const leave = () => dialog.close();
  if (!stays) window.addEventListener("hashchange", leave);
  dialog.addEventListener("close", () => {
    window.removeEventListener("hashchange", leave);
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
}

function control(field) {
  const shared = { name: field.name, required: field.required, autocomplete: "off" };
  if (field.kind === "check") {
    const box = h("input", { ...shared, type: "checkbox", checked: field.value });
    return h("label", { class: "inline" }, box, field.label);
  }
  const input = entry(field, shared);
  input.value = field.value ?? input.value;
  const help = field.help ? h("small", {}, field.help) : null;
  return h("label", {}, field.label, input, help, choices(field));
}

// What may be meant is offered; anything else may be typed.
function choices({ name, choices: values = [] }) {
  return values.length ? h("datalist", { id: `${name}-choices` }, values.map(choice)) : null;
}

function choice(value) {
  return h("option", { value });
}

function entry({ kind, hint, step = 1, options = [], choices: values = [] }, shared) {
  if (kind === "area") return h("textarea", { ...shared, rows: 6, spellcheck: "false" });
  if (kind === "select") {
    return h(
      "select",
      shared,
      options.map((each) => h("option", { value: each.value ?? each }, each.label ?? each)),
    );
  }
  const type = { secret: "password", number: "number" }[kind] ?? "text";
  const bounds = type === "number" ? { min: 0, step } : {};
  const list = values.length ? `${shared.name}-choices` : undefined;
  return h("input", { ...shared, ...bounds, type, list, placeholder: hint });
}

function values(form, fields) {
  return Object.fromEntries(
    fields.map(({ name, kind }) => {
      const input = form.elements.namedItem(name);
      return [name, kind === "check" ? input.checked : input.value];
    }),
  );
}
