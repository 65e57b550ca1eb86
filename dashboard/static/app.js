// The page: reads the route from the address, asks once a second, shows what came.

import { Api, ApiError, Unreachable } from "./api.js";
import { ask } from "./dialogs.js";
import { showNodes } from "./nodes.js";
import { RunView } from "./run.js";
import { RunsView, runLink } from "./runs.js";

const POLL_MS = 1000;

const api = new Api(new URL(".", location.href).href.replace(/\/$/, ""));
const banner = document.getElementById("banner");
const openBanner = document.getElementById("open");
const who = document.getElementById("who");
let view;
let asked = false;
let tokenAsked = false;
let endPause = () => {};

// #/?q=&status=&ns=&offset= is the list, #/run/<id>/<run id>?ns= one run; ids are percent-encoded.
function route() {
  const [path, search = ""] = location.hash.slice(1).split("?");
  const query = Object.fromEntries(new URLSearchParams(search));
  const [, noun, id, runId] = path.split("/");
  if (noun !== "run" || !id) return { list: query, ns: query.ns ?? "" };
  const ns = query.ns ?? "";
  return { run: { id: decodeURIComponent(id), runId: decodeURIComponent(runId ?? ""), ns }, ns };
}

function showRoute() {
  const { list, run, ns } = route();
  api.namespace = ns;
  if (list && view instanceof RunsView) {
    // The search field keeps its focus: only what is listed changes.
    view.filter = list;
  } else {
    view = run ? new RunView(api, run) : new RunsView(api, list, changeFilter);
    document.getElementById("view").replaceChildren(view.element);
    document.title = run ? `${run.id} · raftflow` : "raftflow";
  }
  wake();
}

function changeFilter(filter) {
  const given = Object.entries(filter).filter(([, value]) => value);
  // Replaced, not pushed: the back button leaves the list, not one letter of the search.
  history.replaceState(null, "", given.length ? `#/?${new URLSearchParams(given)}` : "#/");
  showRoute();
}

function startWorkflow() {
  return ask({
    title: "Start a workflow",
    fields: [
      { name: "type", label: "Type", required: true, value: "OrderSaga" },
      { name: "workflow_id", label: "Id", hint: "made by the server when empty" },
      { name: "task_queue", label: "Task queue", hint: "default" },
      { name: "input", label: "Input", kind: "area" },
    ],
    action: "Start",
    submit: async (values) => {
      const given = Object.entries(values).filter(([, value]) => value !== "");
      const started = await api.post("/api/workflows", Object.fromEntries(given));
      location.hash = runLink(started, api.namespace);
    },
  });
}

// Who declines is not asked again.
function askForToken() {
  tokenAsked = true;
  return ask({
    title: "This cluster asks for a token",
    text: "It is traded for a session of twelve hours, and kept nowhere.",
    fields: [{ name: "token", label: "Token", kind: "secret", required: true }],
    action: "Log in",
    submit: async ({ token }) => {
      await api.logIn(token.trim());
      tokenAsked = false;
      await showWho();
      wake();
    },
  });
}

// Only a session can be ended. What the role does not allow the server refuses in its own words.
async function showWho() {
  const session = await api.session().catch(() => null);
  openBanner.hidden = session?.auth !== "off" || isLoopback(location.hostname);
  who.hidden = !session?.session && !api.token;
  if (session) who.textContent = `Log out (${session.role})`;
}

function isLoopback(host) {
  return host === "localhost" || host === "[::1]" || host.startsWith("127.");
}

async function logOut() {
  await api.logOut().catch((error) => {
    if (error.status !== 401) throw error;
  });
  who.hidden = true;
  tokenAsked = false;
  wake();
}

async function refresh() {
  const shown = view;
  const problems = [];
  const note = (error) => problems.push(error);
  await Promise.all([
    api
      .cluster()
      .then((cluster) => {
        api.learn(cluster.nodes);
        showNodes(cluster, api.base);
      })
      .catch(note),
    shown.update().catch((error) => shown === view && note(error)),
  ]);
  // One sentence: the node list failing says more than what failed after it.
  const worst = problems.find((error) => error instanceof Unreachable) ?? problems[0];
  banner.hidden = !worst;
  if (worst && banner.textContent !== worst.message) banner.textContent = worst.message;
  if (worst instanceof ApiError && worst.status === 401) {
    who.hidden = true;
    if (api.away) banner.textContent = `Its node is gone; go on at ${api.base}/`;
    else if (!tokenAsked) askForToken();
  }
  document.body.classList.toggle("stale", worst instanceof Unreachable);
}

// Ends the pause; while an answer is awaited, the next question follows at once.
function wake() {
  asked = true;
  endPause();
}

async function poll() {
  for (;;) {
    asked = false;
    if (!document.hidden) await refresh();
    if (!asked) await pause();
  }
}

function pause() {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, POLL_MS);
    endPause = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}

window.addEventListener("hashchange", showRoute);
document.addEventListener("visibilitychange", wake);
document.getElementById("start").addEventListener("click", startWorkflow);
who.addEventListener("click", logOut);
showWho();
showRoute();
poll();
