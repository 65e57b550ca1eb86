// The shell: which view is shown, who is logged in, how the cluster is. Views get it as `shell`:
//   api          the JSON API (api.js); api.may("StartWorkflow") says whether to offer that
//   cluster      the newest document of /api/cluster, null before the first
//   setQuery(q)  the address gets another query; the view hears of it by navigate()
//   wake()       asks for everything again, now
//   tell(text)   says what an action did, on the screen and to screen readers

import { Api, Unreachable } from "./api.js";
import { ask } from "./dialogs.js";
import { h, reconcile, setText, visible } from "./dom.js";
import { listenForKeys } from "./keys.js";
import { Live } from "./live.js";
import { link, parse } from "./routes.js";
import { startWorkflow } from "./start.js";
import { showSummary } from "./summary.js";
import { themeButton } from "./theme.js";
import { VIEWS } from "./views.js";

const UPDATE_MS = 1000;
const TOLD_MS = 6000;

const api = new Api(new URL(".", location.href).href.replace(/\/$/, ""));
const part = (id) => document.getElementById(id);
const shell = { api, cluster: null, setQuery, wake, tell };
const live = new Live(api, {
  show: showCluster,
  trouble: (error) => note("cluster", error),
  wanted: () => !document.hidden && !refused,
});
// Why the cluster, and why the view, cannot be shown; null where they can.
const problems = { cluster: null, view: null };
let route;
let view;
// A token is asked for; until there is one nothing else is.
let refused = false;
let allowed = "";
let seenAt = "";
let asked = false;
let endPause = () => {};
let untold;

function showRoute({ again = false } = {}) {
  const previous = route;
  route = parse(location.hash);
  const { View } = VIEWS[route.name] ?? VIEWS.cluster;
  api.namespace = route.query.ns ?? "";
  showNav();
  if (!again && view instanceof View && samePath(previous, route) && view.navigate) {
    view.navigate(route);
  } else {
    view?.close?.();
    view = new View(shell, route);
    problems.view = null;
    part("view").replaceChildren(view.element);
    if (shell.cluster) view.showCluster?.(shell.cluster);
    // Who follows a link goes on reading where it leads.
    if (previous && !again) part("view").focus({ preventScroll: true });
    if (previous && !again) window.scrollTo(0, 0);
  }
  document.title = view.title ? visible(`${view.title} · raftflow`) : "raftflow";
  askAgain();
}

function samePath(one, other) {
  return one && link(one.name, one.path) === link(other.name, other.path);
}

function showNav() {
  const here = VIEWS[route.name]?.within ?? route.name;
  const offered = Object.keys(VIEWS).filter(
    (name) => VIEWS[name].call && api.may(VIEWS[name].call),
  );
  const items = offered.map((name) => ({ name, current: name === here }));
  reconcile(
    part("nav"),
    items,
    ({ name }) => name,
    ({ name, current }) =>
      h("a", { href: link(name), "aria-current": current && "page" }, VIEWS[name].label),
  );
  part("start").hidden = !api.may("StartWorkflow");
}

// Replaced, not pushed: the back button leaves the list, not one letter of the search.
function setQuery(query) {
  history.replaceState(null, "", link(route.name, route.path, query));
  showRoute();
}

function tell(text) {
  clearTimeout(untold);
  setText(part("told"), text);
  untold = setTimeout(() => part("told").replaceChildren(), TOLD_MS);
}

// ---- who calls ----------------------------------------------------------------------------------

async function refuse() {
  if (refused) return;
  refused = true;
  // It may be of before the login.
  const session = await api.session().catch(() => null);
  if (session) admit();
  else await Promise.all([showWho(), askForToken()]);
}

function askForToken() {
  return ask({
    title: "This cluster asks for a token",
    text: "It is traded for a session of twelve hours, and kept nowhere.",
    fields: [{ name: "token", label: "Token", kind: "secret", required: true }],
    action: "Log in",
    stays: true,
    submit: async ({ token }) => {
      await api.logIn(token.trim());
      await showWho();
      admit();
    },
  });
}

function admit() {
  refused = false;
  problems.cluster = problems.view = null;
  wake();
}

// Only a session can be ended. What the role does not allow is not offered.
async function showWho() {
  const session = await api.session().catch(() => null);
  part("open").hidden = session?.auth !== "off" || isLoopback(location.hostname);
  part("who").hidden = !refused && !session?.session && !api.token;
  part("who").textContent = session ? `Log out (${session.role})` : "Log in";
  const operations = JSON.stringify([...(api.operations ?? ["all"])]);
  if (operations === allowed) return;
  allowed = operations;
  showRoute({ again: true });
}

function isLoopback(host) {
  return host === "localhost" || host === "[::1]" || host.startsWith("127.");
}

async function logInOrOut() {
  if (refused) return askForToken();
  await api.logOut().catch((error) => {
    if (error.status !== 401) throw error;
  });
  await showWho();
  return wake();
}

// ---- what is shown, each time it changes ----------------------------------------------------------

function showCluster(cluster, base, streaming) {
  shell.cluster = cluster;
  api.learn(cluster.nodes);
  showSummary(cluster, base, streaming);
  view.showCluster?.(cluster);
  note("cluster", null);
  if (seenAt === base) return;
  // Another node may be of another release, and allow less.
  if (seenAt) showWho();
  seenAt = base;
  askAgain();
}

function note(subject, error) {
  problems[subject] = error;
  // One sentence: that no node answers says more than what failed after it.
  const all = [problems.cluster, problems.view].filter(Boolean);
  const worst = all.find((each) => each instanceof Unreachable) ?? all[0];
  part("banner").hidden = !worst;
  if (worst) setText(part("banner"), worst.message);
  document.body.classList.toggle("stale", worst instanceof Unreachable);
  if (worst?.status !== 401) return;
  if (api.away) {
    setText(part("banner"), `Its node is gone; go on at ${api.base}/`);
    api.goHome();
  } else refuse();
}

// What is shown is asked for again, at once.
function wake() {
  live.wake();
  askAgain();
}

// Ends the pause; while an answer is awaited, the next question follows at once.
function askAgain() {
  asked = true;
  endPause();
}

async function keepUpdated() {
  for (;;) {
    const shown = view;
    asked = false;
    if (!document.hidden && !refused) {
      const problem = await shown.update().then(
        () => null,
        (error) => error,
      );
      if (shown === view) note("view", problem);
    }
    if (!asked) await pause(view.constructor.every ?? UPDATE_MS);
  }
}

function pause(ms) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    endPause = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}

window.addEventListener("hashchange", () => showRoute());
document.addEventListener("visibilitychange", wake);
part("start").addEventListener("click", () => startWorkflow(shell));
part("who").addEventListener("click", logInOrOut);
themeButton(part("theme"));
listenForKeys();
await showWho();
live.run();
keepUpdated();
