// Durations are told by the cluster's time where this machine's clock is far off.

import assert from "node:assert/strict";
import test from "node:test";

import { hear, now } from "./clock.js";

test("a clock that is far off is put right, and nothing else moves it", () => {
  const at = Date.UTC(2026, 0, 1, 12);
  const ahead = () => Math.round((now() - Date.now()) / 1000);
  hear("Thu, 01 Jan 2026 10:00:00 GMT", at);
  assert.equal(ahead(), -7200);
  for (const unread of [null, undefined, "", "soon"]) hear(unread, at);
  assert.equal(ahead(), -7200);
  hear("Thu, 01 Jan 2026 11:59:58 GMT", at);
  assert.equal(ahead(), 0);
});
