// Server-sent events, however the network cuts them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { SseReader } from "../../../src/conch/gateway/page/sse.js";

const STREAM =
  'data: {"a":1}\n\n: keep-alive\n\nevent: x\r\ndata: {"b":"ü"}\r\n\r\ndata:{"c":\ndata:3}\n\n';

test("events come out in order, comments do not", () => {
  assert.deepEqual(new SseReader().push(STREAM), [{ a: 1 }, { b: "ü" }, { c: 3 }]);
});

test("cuts at every place give the same events", () => {
  for (let cut = 0; cut <= STREAM.length; cut++) {
    const reader = new SseReader();
    const events = [...reader.push(STREAM.slice(0, cut)), ...reader.push(STREAM.slice(cut))];
    assert.deepEqual(events, [{ a: 1 }, { b: "ü" }, { c: 3 }], `cut at ${cut}`);
  }
});

test("an event that has not ended waits", () => {
  const reader = new SseReader();
  assert.deepEqual(reader.push('data: {"a":'), []);
  assert.deepEqual(reader.push("1}\n\n"), [{ a: 1 }]);
});
