// The state of the cluster as it changes: a stream of one node's events, and questions each second
// where there is none. Whichever node is lost, it goes on with another.

import { ApiError } from "./api.js";

const POLL_MS = 1000;
// A node says something each second: silence means that it is paused or cut off.
const SILENCE_MS = 2500;
// A node of an older release has no stream, a proxy may hold one back: it is tried again later.
const STREAMLESS_MS = 30_000;

export class Live {
  // `show(cluster, base, streaming)` gets each document, `trouble(error)` why there is none. While it
  // is not `wanted()` nothing is asked; wake() tells that this may have changed.
  constructor(api, { show, trouble, wanted }) {
    this.api = api;
    this.show = show;
    this.trouble = trouble;
    this.wanted = wanted;
    this.streamless = new Map();
    this.endPause = () => {};
    this.endStream = () => {};
    this.closed = false;
  }

  wake() {
    this.endPause();
    if (!this.wanted()) this.endStream();
  }

  // For good.
  close() {
    this.closed = true;
    this.wake();
    this.endStream();
  }

  async run() {
    while (!this.closed) {
      if (this.wanted()) await this.round();
      await this.pause();
    }
  }

  // Ends when it is time to ask again.
  async round() {
    try {
      // Finds a node that answers, too.
      const cluster = await this.api.cluster();
      const base = this.api.base;
      const streams = !(Date.now() < this.streamless.get(base));
      this.take(cluster, base, false);
      if (streams) await this.follow(base);
    } catch (error) {
      this.trouble(error);
    }
  }

  // What cannot be shown is no fault of the node that told it.
  take(cluster, base, streaming) {
    try {
      this.show(cluster, base, streaming);
    } catch (error) {
      this.trouble(error);
    }
  }

  async follow(base) {
    const began = Date.now();
    let heard = 0;
    try {
      await this.read(base, (cluster) => {
        heard += 1;
        this.take(cluster, base, true);
      });
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) throw error;
      // Not when it was ended here, since nobody looks.
      if (heard && this.wanted()) this.api.leave(base);
    }
    if (!heard) this.streamless.set(base, Date.now() + STREAMLESS_MS);
    // The next node is asked at once, unless each of them ends it at once.
    this.soon = heard > 0 && Date.now() - began > POLL_MS;
  }

  async read(base, take) {
    const ending = new AbortController();
    this.endStream = () => ending.abort();
    let timer;
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(this.endStream, SILENCE_MS);
    };
    try {
      alive();
      const answer = await this.api.stream(base, "/api/cluster/events", ending.signal);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      const events = new EventReader();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        alive();
        for (const { event, data } of events.read(value)) {
          if (event === "cluster") take(JSON.parse(data));
        }
      }
    } finally {
      clearTimeout(timer);
      this.endStream();
    }
  }

  pause() {
    if (this.soon) {
      this.soon = false;
      return undefined;
    }
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, POLL_MS);
      this.endPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

// Server-sent events out of the pieces in which they come. Not EventSource: that can carry no token,
// tells no status, and goes on with a node that is gone.
export class EventReader {
  constructor() {
    this.rest = "";
  }

  read(piece) {
    const blocks = (this.rest + piece).replaceAll("\r\n", "\n").split("\n\n");
    this.rest = blocks.pop();
    return blocks.map(eventOf).filter(({ data }) => data);
  }
}

function eventOf(block) {
  const found = { event: "message", data: "" };
  for (const line of block.split("\n")) {
    const [, field, value] = /^(\w*): ?(.*)$/.exec(line) ?? [];
    if (field === "event") found.event = value;
    else if (field === "data") found.data += found.data ? `\n${value}` : value;
  }
  return found;
}
