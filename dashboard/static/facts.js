// Facts of a run or a step: names and what they are, as texts, links or payloads.

import { bdi, h, payload } from "./dom.js";

// {name, text, href?, mono?, error?} or {name, holder, field} for a payload.
export function factElement(fact) {
  const wide = fact.holder || fact.error ? "wide" : null;
  return h("div", { class: wide }, h("dt", {}, fact.name), h("dd", {}, factValue(fact)));
}

function factValue(fact) {
  if (fact.holder) return payload(fact.holder, fact.field);
  const look = fact.error ? "error" : fact.mono ? "mono" : null;
  const text = bdi(fact.text);
  return fact.href
    ? h("a", { class: look, href: fact.href }, text)
    : h("span", { class: look }, text);
}

// Whether a payload is there at all; null says that it may not be seen.
export function has(holder, name) {
  return holder[name] !== undefined || holder[`${name}_base64`] !== undefined;
}

export function pick(holder, name) {
  return { [name]: holder[name], [`${name}_base64`]: holder[`${name}_base64`] };
}
