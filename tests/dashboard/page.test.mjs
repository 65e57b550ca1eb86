// The parts of the page that need no browser. Run by test_modules.py, which sets NODES to the
// addresses of two servers: the first refuses connections, the second echoes what it is asked.

import assert from "node:assert/strict";
import test from "node:test";

import { Api, ApiError, Unreachable, workflowPath } from "./api.js";
import { duration, visible } from "./dom.js";
import { EventReader } from "./live.js";
import { link, parse } from "./routes.js";

const [DEAD, ALIVE] = process.env.NODES.split(" ");

test("ids of any kind are one segment of the path", () => {
  for (const id of ["a/b", "q'\"", "a b", "🦆", "<script>", "%2F?#{id}"]) {
    const path = new URL(workflowPath(id, "signal"), "http://x").pathname.split("/");
    assert.deepEqual(path.map(decodeURIComponent), ["", "api", "workflows", id, "signal"]);
  }
});

test("a dead node is left for one that the cluster told of", async () => {
  const api = new Api(`http://${ALIVE}`);
  api.learn([{ http: DEAD }, { http: ALIVE }, { http: "" }]);
  assert.deepEqual(api.bases, [`http://${ALIVE}`, `http://${DEAD}`]);
  api.current = 1;
  const echo = await api.get("/api/workflows", { q: "a b", status: "" });
  assert.equal(echo.target, "/api/workflows?q=a+b");
  assert.equal(api.base, `http://${ALIVE}`);
});

test("a call that changes something keeps its request id on every node", async () => {
  const api = new Api(`http://${DEAD}`);
  api.learn([{ http: ALIVE }]);
  api.namespace = "shop";
  api.token = "of-the-shop";
  const echo = await api.post("/api/workflows", { type: "Order" });
  assert.match(echo.body.request_id, /^[0-9a-f]{32}$/);
  const again = await api.post("/api/workflows", { type: "Order", request_id: "mine" });
  assert.equal(again.body.request_id, "mine");
  assert.equal(echo.body.type, "Order");
  assert.equal(echo.headers.Authorization ?? echo.headers.authorization, "Bearer of-the-shop");
  assert.equal(echo.headers["X-Workflowd-Namespace"] ?? echo.headers["x-workflowd-namespace"], "shop");
});

test("when no node answers the error names each", async () => {
  const api = new Api(`http://${DEAD}`);
  await assert.rejects(api.get("/api/cluster"), (error) => {
    assert.ok(error instanceof Unreachable);
    assert.ok(error.message.includes(DEAD));
    return true;
  });
});

test("a view asks about its own namespace, and goes the way that all go", async () => {
  const api = new Api(`http://${DEAD}`);
  api.learn([{ http: ALIVE }]);
  const shop = api.within("shop");
  api.namespace = "other";
  const echo = await shop.get("/api/workflows");
  assert.equal(echo.headers["X-Workflowd-Namespace"] ?? echo.headers["x-workflowd-namespace"], "shop");
  assert.equal(api.base, `http://${ALIVE}`);
  assert.equal(shop.base, api.base);
});

test("an error of the server is shown in its own words", async () => {
  const api = new Api(`http://${ALIVE}`);
  await assert.rejects(api.get("/api/refused"), (error) => {
    assert.ok(error instanceof ApiError);
    assert.equal(error.message, "unknown workflow");
    assert.equal(error.status, 404);
    return true;
  });
});

test("durations", () => {
  const shown = [0, 999, 1500, 61_000, 7_200_000, 200_000_000, undefined].map(duration);
  assert.deepEqual(shown, ["0 ms", "999 ms", "1.50 s", "1 min 1 s", "2 h 0 min", "2 d 7 h", ""]);
});

test("a session is opened with a token, and what it changes is marked as ours", async () => {
  const api = new Api(`http://${ALIVE}`);
  await api.logIn("rf_id_secret");
  assert.equal(api.token, "");
  const header = (echo, name) => echo.headers[name] ?? echo.headers[name.toLowerCase()];
  const posted = await api.post("/api/workflows", { type: "Order" });
  assert.equal(header(posted, "X-Raftflow-Session"), "1");
  assert.equal(header(posted, "Authorization"), undefined);
  const read = await api.get("/api/workflows");
  assert.equal(header(read, "X-Raftflow-Session"), undefined);
});

test("a cookie does not follow to another host", () => {
  const api = new Api("http://127.0.0.1:8233");
  api.learn([{ http: "127.0.0.1:8234" }, { http: "10.0.0.2:8233" }]);
  const away = api.bases.map((_, current) => Object.assign(api, { current }).away);
  assert.deepEqual(away, [false, false, true]);
});

test("an address is what was linked to, whatever the id", () => {
  for (const id of ["a/b", "q?x=1", "#", "100%", "\u202eabc", "<b>"]) {
    const route = parse(link("run", [id, "r1"], { ns: "shop", q: "" }));
    assert.deepEqual(route, { name: "run", path: [id, "r1"], query: { ns: "shop" } });
  }
  assert.deepEqual(parse("#/run/100%"), { name: "run", path: ["100%"], query: {} });
});

test("the page opens with the cluster, and old links to lists with the list", () => {
  assert.equal(parse("").name, "cluster");
  assert.equal(parse("#/").name, "cluster");
  assert.deepEqual(parse("#/?status=FAILED"), {
    name: "runs",
    path: [],
    query: { status: "FAILED" },
  });
});

test("events come in pieces, with comments between", () => {
  const reader = new EventReader();
  assert.deepEqual(reader.read(": still here\n\nevent: clus"), []);
  assert.deepEqual(reader.read('ter\ndata: {"a":1}\n\ndata: x\ndata: y\n'), [
    { event: "cluster", data: '{"a":1}' },
  ]);
  assert.deepEqual(reader.read("\n"), [{ event: "message", data: "x\ny" }]);
});

test("what may be done is what the server says, and all where it does not say", async () => {
  const api = new Api(`http://${ALIVE}`);
  assert.ok(api.may("MintToken"));
  await api.session();
  assert.ok(api.may("MintToken"));
  api.operations = new Set(["ListWorkflows"]);
  assert.deepEqual([api.may("ListWorkflows"), api.may("MintToken")], [true, false]);
});

test("what cannot be seen is written out, as the command line does", () => {
  assert.equal(visible("a b\u202egnp.exe"), "a b\\u202egnp.exe");
  assert.equal(visible("\x1b[2J\u0085\u200d\u2066\ufeff"), "\\x1b[2J\\x85\\u200d\\u2066\\ufeff");
  assert.equal(visible("\u{e0041}\ud800"), "\\U000e0041\\ud800");
  assert.equal(visible("a\n\tb\r"), "a\\n\\tb\\r");
  assert.equal(visible("a\n\tb\r", { lines: true }), "a\n\tb\\r");
  assert.equal(visible("no\u00a0break"), "no\\xa0break");
  for (const plain of ["<script>", "Grüße", "שלום", "🦆", "日本"]) assert.equal(visible(plain), plain);
});
