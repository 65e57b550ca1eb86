// Dialogs: start a workflow, send a signal, confirm what cannot be undone. Each resolves when the
// server has answered, and shows the server's error without losing what was typed.

import { h } from "./dom.js";

export function ask({ title, text, fields = [], action, danger = false, submit }) {
  return new Promise((resolve) => {
    const error = h("p", { class: "error", role: "alert", hidden: true });
    const go = h("button", { type: "submit", class: danger ? "danger" : "primary" }, action);
    const form = h(
      "form",
      {},
      h("h2", {}, title),
      text ? h("p", {}, text) : null,
      fields.map(control),
      error,
      h(
        "footer",
        {},
        h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
        go,
      ),
    );
    let done = false;
    const dialog = h("dialog", { "aria-label": title }, form);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      go.disabled = true;
      error.hidden = true;
      try {
        await submit(values(form, fields));
        done = true;
        dialog.close();
      } catch (problem) {
        error.textContent = problem.message;
        error.hidden = false;
        go.disabled = false;
      }
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(done);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

function control(field) {
  const shared = { name: field.name, required: field.required, autocomplete: "off" };
  let input;
  if (field.kind === "area") {
    input = h("textarea", { ...shared, rows: 6, spellcheck: "false" });
  } else if (field.kind === "check") {
    input = h("input", { ...shared, type: "checkbox", checked: field.value });
    return h("label", { class: "inline" }, input, field.label);
  } else {
    const type = field.kind === "secret" ? "password" : "text";
    const list = field.choices?.length ? `choices-of-${field.name}` : undefined;
    input = h("input", { ...shared, type, list, placeholder: field.hint });
    if (list) {
      const choices = field.choices.map((value) => h("option", { value }));
      return h("label", {}, field.label, filled(input, field), h("datalist", { id: list }, choices));
    }
  }
  return h("label", {}, field.label, filled(input, field));
}

function filled(input, { value = "" }) {
  input.value = value;
  return input;
}

function values(form, fields) {
  return Object.fromEntries(
    fields.map(({ name, kind }) => {
      const input = form.elements.namedItem(name);
      return [name, kind === "check" ? input.checked : input.value];
    }),
  );
}
