// The keyboard: g and a letter for a view, / for the search, ? for what there is.

import { h } from "./dom.js";
import { showing } from "./dialogs.js";
import { link } from "./routes.js";
import { VIEWS } from "./views.js";

const CHORD_MS = 1500;

export function listenForKeys() {
  let chordUntil = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || isTyping(event.target)) return;
    if (Date.now() < chordUntil) {
      chordUntil = 0;
      const name = Object.keys(VIEWS).find((each) => VIEWS[each].key === event.key);
      if (name) location.hash = link(name);
    } else if (event.key === "g") {
      chordUntil = Date.now() + CHORD_MS;
    } else if (event.key === "/") {
      const search = document.querySelector("#view input[type=search]");
      if (!search) return;
      event.preventDefault();
      search.select();
    } else if (event.key === "?") {
      showKeys();
    }
  });
}

function isTyping(target) {
  return target.closest("input, textarea, select, dialog, [contenteditable]") !== null;
}

function showKeys() {
  const views = Object.values(VIEWS).filter(({ key }) => key);
  const rows = [
    ...views.map(({ key, label }) => [`g ${key}`, label]),
    ["/", "Search"],
    ["↑ ↓", "From run to run, in their list"],
    ["?", "These keys"],
  ];
  return showing({
    title: "Keys",
    content: h(
      "dl",
      { class: "keys" },
      rows.map(([keys, what]) => h("div", {}, h("dt", {}, h("kbd", {}, keys)), h("dd", {}, what))),
    ),
  });
}
