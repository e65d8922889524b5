// What the page asks for, and what it makes of answers that are no answers of the gateway.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import {
  ApiError,
  componentsFor,
  formatted,
  fetchJson,
  keepKey,
  key,
  transcribe,
} from "../../../src/conch/gateway/page/api.js";

const MADE = ["fetch", "sessionStorage", "XMLHttpRequest"];
const before = Object.fromEntries(
  MADE.map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)]),
);
const put = (name, value) =>
  Object.defineProperty(globalThis, name, { ...value, configurable: true });

afterEach(() => {
  for (const name of MADE) {
    delete globalThis[name];
    if (before[name]) put(name, before[name]);
  }
  keepKey("");
});

/** A request that comes to one of its ends at once. */
function requestThat(ends) {
  put("XMLHttpRequest", {
    value: class {
      upload = {};
      open() {}
      setRequestHeader() {}
      getResponseHeader() {
        return null;
      }
      abort() {}
      send() {
        ends(this);
      }
    },
  });
}

test("where the browser keeps nothing for sites, the page keeps the key", () => {
  put("sessionStorage", {
    get: () => {
      throw new DOMException("denied", "SecurityError");
    },
  });
  assert.equal(key(), "");
  keepKey("secret");
  assert.equal(key(), "secret");
  keepKey("");
  assert.equal(key(), "");
});

test("a path is asked for without long lists of words, which a query has no room for", async () => {
  const asked = [];
  put("fetch", { value: async (path) => (asked.push(path), new Response('{"components": []}')) });
  const fields = { model: "conch-ctc", hotwords: "a".repeat(9000), vad: false };
  assert.deepEqual(await componentsFor(fields, true), []);
  assert.deepEqual(asked, ["/v1/components?model=conch-ctc&vad=false&live=true"]);
});

test("an error of a format is the server's", async () => {
  const error = { error: { message: "format: takes text, srt" } };
  put("fetch", { value: async () => new Response(JSON.stringify(error), { status: 400 }) });
  await assert.rejects(formatted({ segments: [] }, "docx"), /takes text, srt/);
});

test("a page of a proxy is no answer", async () => {
  put("fetch", { value: async () => new Response("<html>Sign in</html>") });
  await assert.rejects(fetchJson("/v1/options"), (error) => {
    return error instanceof ApiError && /not Conch's server/.test(error.message);
  });
  requestThat((request) => {
    Object.assign(request, { status: 200, responseText: "<html>Sign in</html>" });
    request.onload();
  });
  await assert.rejects(transcribe(new File(["audio"], "a.wav"), {}), /not Conch's server/);
});

test("a file that cannot be read is told apart from a server that is gone", async () => {
  requestThat((request) => request.onerror());
  await assert.rejects(transcribe(new File(["audio"], "a.wav"), {}), /does not answer/);
  const moved = new File(["audio"], "a.wav");
  moved.slice = () => ({ arrayBuffer: () => Promise.reject(new DOMException("gone")) });
  await assert.rejects(transcribe(moved, {}), /cannot be read/);
});
