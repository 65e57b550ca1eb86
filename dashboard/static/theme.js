// Light, dark, or as the system has it. A screen on a wall is told once and remembers.

const CHOICES = { "": "as the system", light: "light", dark: "dark" };
const KEY = "raftflow.theme";

export function themeButton(button) {
  let chosen = remembered();
  const show = () => {
    document.documentElement.dataset.theme = chosen;
    button.setAttribute("aria-label", `Theme: ${CHOICES[chosen]}`);
    button.title = CHOICES[chosen];
  };
  button.addEventListener("click", () => {
    const names = Object.keys(CHOICES);
    chosen = names[(names.indexOf(chosen) + 1) % names.length];
    remember(chosen);
    show();
  });
  show();
}

// A browser may keep nothing for this page, and says so by throwing.
function remembered() {
  try {
    const value = localStorage.getItem(KEY) ?? "";
    return value in CHOICES ? value : "";
  } catch {
    return "";
  }
}

function remember(value) {
  try {
    localStorage.setItem(KEY, value);
  } catch {
    // It holds until the page is closed.
  }
}
