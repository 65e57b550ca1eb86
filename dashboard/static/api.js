// The JSON API, over whichever node answers. The page came from one node; when that is gone it goes
// on with the others, whose addresses /api/cluster told.

import { hear } from "./clock.js";

const READ_TIMEOUT_MS = 7000;
// A node says at once how the cluster is, leader or not: silence means that it is paused or cut off.
const STATUS_TIMEOUT_MS = 2000;
const WRITE_TIMEOUT_MS = 12000;
const DOWNLOAD_TIMEOUT_MS = 120000;

const SINCE_0_5 = new Set([
  "ListQueues",
  "ListWorkers",
  "TransferLeadership",
  "SnapshotNode",
  "WhyRun",
  "WhyTask",
  "WhyQueue",
  "WhyNode",
  "WhyLeader",
  "WhyLog",
]);

export class ApiError extends Error {
  constructor(message, status, reason) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

// No node served it; `problems` says why, node by node. `answered`: one that is there could not, since
// nobody leads or a majority is missing.
export class Unreachable extends Error {
  constructor(problems, answered) {
    const what = answered ? "The cluster cannot serve this now." : "No node answers.";
    super(`${what} ${problems.join("; ")}`);
  }
}

export class Api {
  constructor(origin) {
    this.bases = [origin];
    this.current = 0;
    // For each node that is asked: what ends the questions to it.
    this.leaving = new Map();
    this.namespace = "";
    this.token = "";
    // What the caller may do, as the server says; null where it does not say.
    this.operations = null;
  }

  // Trades a token for a session, whose cookie this page cannot read. A cluster that is still being
  // upgraded has none: then the token stays in memory, until the page is closed.
  async logIn(token) {
    try {
      await this.request("POST", "/api/session", {}, WRITE_TIMEOUT_MS, { token });
    } catch (error) {
      if (error.reason !== "FEATURE_UNAVAILABLE") throw error;
      this.token = token;
      await this.cluster();
    }
  }

  async logOut() {
    if (!this.token) await this.request("DELETE", "/api/session", {}, WRITE_TIMEOUT_MS);
    this.token = "";
  }

  // Who the caller is; null where that is to be told first.
  async session() {
    try {
      const session = await this.get("/api/session");
      this.operations = session.operations ? new Set(session.operations) : null;
      return session;
    } catch (error) {
      if (error.status !== 401) throw error;
      this.operations = new Set();
      return null;
    }
  }

  // Whether to offer it. A node before 0.5 does not say, and has fewer calls: of those it has, the
  // server refuses what may not be.
  may(operation) {
    return this.operations?.has(operation) ?? !SINCE_0_5.has(operation);
  }

  // A cookie goes to the host alone that it came from.
  get away() {
    return new URL(this.base).hostname !== new URL(this.bases[0]).hostname;
  }

  // The node of the page may be back, which has the session.
  goHome() {
    this.current = 0;
  }

  get base() {
    return this.bases[this.current];
  }

  // Remembers where the other nodes are; the one in use stays in use.
  learn(nodes) {
    const scheme = new URL(this.base).protocol;
    for (const node of nodes) {
      if (!node.http || node.member === "removed") continue;
      const base = `${scheme}//${node.http}`;
      if (!this.bases.includes(base)) this.bases.push(base);
    }
  }

  get(path, query = {}) {
    return this.request("GET", path, query, READ_TIMEOUT_MS);
  }

  // What that node knows itself. A session is good on the host alone that it was opened at.
  async getAt(http, path) {
    const url = `${new URL(this.base).protocol}//${http}${path}`;
    const answer = await this.send(url, "GET", AbortSignal.timeout(STATUS_TIMEOUT_MS));
    return accepted(answer, asJson);
  }

  // The same way to the cluster, asking about this namespace whatever view is shown meanwhile.
  within(namespace) {
    const current = { get: () => this.current, set: (index) => (this.current = index) };
    return Object.create(this, { namespace: { value: namespace }, current });
  }

  cluster() {
    return this.request("GET", "/api/cluster", {}, STATUS_TIMEOUT_MS);
  }

  // The same request id however often it is sent: no second effect on any node.
  post(path, body) {
    return this.change("POST", path, { request_id: requestId(), ...body });
  }

  put(path, body) {
    return this.change("PUT", path, { ...body, request_id: requestId() });
  }

  // What has the same effect once and twice needs no id.
  change(method, path, body) {
    return this.request(method, path, {}, WRITE_TIMEOUT_MS, body);
  }

  // An answer of this node that goes on until `signal` ends it.
  async stream(base, path, signal) {
    const answer = await this.send(`${base}${path}`, "GET", signal);
    return accepted(answer, () => answer);
  }

  // This node is lost. Another call may have moved on meanwhile. What it was asked goes to the next
  // one; what it was told to do may be done.
  leave(base) {
    if (this.base !== base) return;
    this.current = (this.current + 1) % this.bases.length;
    this.leaving.get(base)?.abort();
    this.leaving.delete(base);
  }

  limit(method, base, timeout) {
    const late = AbortSignal.timeout(timeout);
    if (method !== "GET") return late;
    if (!this.leaving.has(base)) this.leaving.set(base, new AbortController());
    return AbortSignal.any([late, this.leaving.get(base).signal]);
  }

  delete(path, query) {
    const named = { request_id: requestId(), ...query };
    return this.request("DELETE", path, named, WRITE_TIMEOUT_MS);
  }

  // The bytes of an answer, whole.
  blob(path, query) {
    return this.request("GET", path, query, DOWNLOAD_TIMEOUT_MS, undefined, (answer) =>
      answer.blob(),
    );
  }

  async request(method, path, query, timeout, body, read = asJson) {
    const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined);
    const search = given.length ? `?${new URLSearchParams(given)}` : "";
    const problems = [];
    let answered = false;
    for (let tries = this.bases.length; tries > 0; tries -= 1) {
      const base = this.base;
      try {
        const limit = this.limit(method, base, timeout);
        const answer = await this.send(`${base}${path}${search}`, method, limit, body);
        if (answer.status !== 503) return await accepted(answer, read);
        answered = true;
        problems.push(`${host(base)}: ${(await errorOf(answer)).message}`);
      } catch (error) {
        if (error instanceof ApiError) throw error;
        const late = error.name === "TimeoutError" || error.name === "AbortError";
        problems.push(`${host(base)}: ${late ? "no answer in time" : error.message}`);
      }
      this.leave(base);
    }
    throw new Unreachable(problems, answered);
  }

  async send(url, method, signal, body) {
    const headers = {};
    if (this.namespace) headers["X-Workflowd-Namespace"] = this.namespace;
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    // No other page can send it: what it changes is meant.
    if (method !== "GET") headers["X-Raftflow-Session"] = "1";
    if (body) headers["Content-Type"] = "application/json";
    const answer = await fetch(url, {
      method,
      headers,
      body: body && JSON.stringify(body),
      cache: "no-store",
      credentials: this.token ? "omit" : "include",
      signal,
    });
    hear(answer.headers.get("Date"));
    return answer;
  }
}

export function workflowPath(id, ...rest) {
  return ["/api/workflows", encodeURIComponent(id), ...rest].join("/");
}

function asJson(answer) {
  return answer.json();
}

async function accepted(answer, read) {
  if (!answer.ok) throw await errorOf(answer);
  return read(answer);
}

async function errorOf(answer) {
  const body = await answer.json().catch(() => ({}));
  return new ApiError(body.error || `HTTP ${answer.status}`, answer.status, body.reason);
}

function host(base) {
  return new URL(base).host;
}

// crypto.randomUUID exists on secure origins only, and a cluster is often plain HTTP.
export function requestId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
