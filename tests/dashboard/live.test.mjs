// The stream of the cluster's state, against servers that begin, fall silent and die.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import test from "node:test";

import { Api, ApiError } from "./api.js";
import { Live } from "./live.js";

// A node whose stream says what `events(send, response)` makes it say; without it there is none.
async function node(name, events) {
  const server = createServer((request, response) => {
    if (request.url === "/api/cluster") {
      response.end(JSON.stringify({ node: name, asked: true, nodes: [] }));
    } else if (request.url === "/api/cluster/events" && events) {
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      const send = (term) => {
        response.write(`event: cluster\ndata: ${JSON.stringify({ node: name, term })}\n\n`);
      };
      events(send, response);
    } else {
      response.writeHead(404).end(JSON.stringify({ error: "no such path" }));
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { http: `127.0.0.1:${server.address().port}`, stop };
}

// What is shown, until `enough` says that it is.
function watch(nodes, enough) {
  const api = new Api(`http://${nodes[0].http}`);
  api.learn(nodes);
  const shown = [];
  return new Promise((resolve, reject) => {
    let over = false;
    const live = new Live(api, {
      show: (cluster, base, streaming) => {
        shown.push({ ...cluster, streaming });
        if (!over && enough(shown)) end(resolve);
      },
      trouble: (error) => !over && end(reject, error),
      wanted: () => !over,
    });
    const end = (settle, error) => {
      over = true;
      live.close();
      settle(error ?? shown);
    };
    live.run();
  });
}

test("what the stream says is shown as it comes", async () => {
  const one = await node("n1", (send) => {
    send(1);
    setTimeout(() => send(2), 20);
  });
  const shown = await watch([one], (all) => all.at(-1).term === 2);
  assert.deepEqual(
    shown.map(({ term, streaming }) => [term, streaming]),
    [
      [undefined, false],
      [1, true],
      [2, true],
    ],
  );
  await one.stop();
});

test("when the node of the page dies the next one is heard at once", async () => {
  const one = await node("n1", (send, response) => {
    send(1);
    setTimeout(() => response.destroy(), 1100);
  });
  const two = await node("n2", (send) => send(2));
  const began = Date.now();
  const shown = await watch([one, two], (all) => all.at(-1).term === 2);
  assert.equal(shown.at(-1).node, "n2");
  assert.ok(Date.now() - began < 6000, `${Date.now() - began} ms`);
  await Promise.all([one.stop(), two.stop()]);
});

test("a node that falls silent is left", async () => {
  const one = await node("n1", (send) => send(1));
  const two = await node("n2", (send) => send(2));
  const began = Date.now();
  await watch([one, two], (all) => all.at(-1).term === 2);
  assert.ok(Date.now() - began < 10_000, `${Date.now() - began} ms`);
  await Promise.all([one.stop(), two.stop()]);
});

test("a node is not left for what cannot be shown, nor when nobody looks any more", async () => {
  const one = await node("n1", (send) => {
    for (const term of [1, 2]) send(term);
  });
  const api = new Api(`http://${one.http}`);
  api.learn([one, { http: "127.0.0.1:1" }]);
  const troubles = [];
  let looked = true;
  const live = new Live(api, {
    show: ({ term }) => {
      if (term === 1) throw new TypeError("a fault of the page");
      if (term === 2) looked = false;
    },
    trouble: (error) => troubles.push(error.message),
    wanted: () => looked,
  });
  const running = live.run();
  while (looked) await new Promise((resolve) => setTimeout(resolve, 5));
  live.wake();
  await new Promise((resolve) => setTimeout(resolve, 50));
  live.close();
  await running;
  assert.deepEqual(troubles, ["a fault of the page"]);
  assert.equal(api.base, `http://${one.http}`);
  await one.stop();
});

test("a node without a stream is asked each second", async () => {
  const older = await node("n1");
  const shown = await watch([older], (all) => all.length === 3);
  assert.ok(shown.every(({ asked, streaming }) => asked && !streaming));
  await older.stop();
});

test("who may not look is told so, and not that the node is gone", async () => {
  const server = createServer((_, response) => {
    response.writeHead(401).end(JSON.stringify({ error: "a token is needed" }));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const closed = { http: `127.0.0.1:${server.address().port}` };
  await assert.rejects(
    watch([closed], () => false),
    (error) => {
      assert.ok(error instanceof ApiError);
      assert.equal(error.status, 401);
      return true;
    },
  );
  server.closeAllConnections();
  server.close();
});

test("what a lost node was asked goes to the next one, what it was told waits", async () => {
  const asked = [];
  const server = createServer((request) => asked.push(request.method));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const frozen = { http: `127.0.0.1:${server.address().port}` };
  const two = await node("n2");
  const api = new Api(`http://${frozen.http}`);
  api.learn([frozen, two]);
  const read = api.get("/api/cluster");
  let told = false;
  const write = api.change("POST", "/api/cluster/transfer", {}).catch(() => {});
  write.then(() => {
    told = true;
  });
  while (asked.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  api.leave(api.base);
  assert.equal((await read).node, "n2");
  assert.equal(told, false);
  server.closeAllConnections();
  await write;
  server.close();
  await two.stop();
});
