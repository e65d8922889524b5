// What the reference makes of an OpenAPI document.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  answersOf,
  defaultOf,
  fieldsOf,
  groupsOf,
  paragraphsOf,
  resolved,
  samplesOf,
  typeOf,
} from "../../../src/conch/gateway/page/docs_model.js";

const text = (schema) => typeOf(schema).map((piece) => piece.text).join("");

test("a type in words", () => {
  assert.equal(text({ type: "string", enum: ["fast", "best"] }), "fast | best");
  assert.equal(text({ type: "number", minimum: -20, maximum: 20 }), "number −20 to 20");
  assert.equal(text({ type: ["string", "null"] }), "string or null");
  assert.equal(text({ type: "array", items: { type: "integer" } }), "list of integer");
  assert.equal(text({ type: "string", format: "binary" }), "file");
  assert.equal(text({ type: "object", additionalProperties: { $ref: "#/components/schemas/Stage" } }), "object, each value Stage");
});

test("a choice keeps the link to a named schema", () => {
  const pieces = typeOf({ anyOf: [{ type: "string", const: "auto" }, { $ref: "#/components/schemas/ServerVad" }] });
  assert.deepEqual(pieces, [{ text: "auto" }, { text: " or " }, { text: "ServerVad", name: "ServerVad" }]);
});

test("false and 0 are defaults, an empty text is none", () => {
  assert.deepEqual([{ default: false }, { default: 0 }, { default: "" }, {}, { default: ["a"] }].map(defaultOf), ["false", "0", "", "", "a"]);
});

test("fields come from the address, the query and the body", () => {
  const fields = fieldsOf({
    parameters: [{ name: "vad", in: "query", schema: { type: "boolean" }, "x-conch-option": true }],
    requestBody: {
      content: { "multipart/form-data": { schema: { required: ["file"], properties: { file: {}, nbest: {} } } } },
    },
  });
  assert.deepEqual(
    fields.map(({ name, where, isRequired, isOption }) => [name, where, isRequired, isOption]),
    [["vad", "query", false, true], ["file", "body", true, false], ["nbest", "body", false, false]],
  );
});

test("operations stand under their tags, errors apart from answers", () => {
  const operation = { tags: ["B"], responses: { 200: {}, 404: { $ref: "#/components/responses/404" } } };
  const document = {
    tags: [{ name: "A" }, { name: "B" }],
    paths: { "/x": { get: operation } },
    components: { responses: { 404: { description: "Gone." } } },
  };
  assert.deepEqual(groupsOf(document).map((group) => group.operations.length), [0, 1]);
  assert.deepEqual(answersOf(document, operation), { good: [["200", {}]], errors: [["404", { description: "Gone." }]] });
  assert.deepEqual(resolved(document, { $ref: "#/components/responses/404", more: 1 }), { description: "Gone.", more: 1 });
});

test("samples have the address of this gateway", () => {
  const operation = { responses: {}, "x-codeSamples": [{ source: "curl -N http://127.0.0.1:9000/v1/x" }] };
  assert.deepEqual(samplesOf("https://a.org", "/v1/x", operation), ["curl -N https://a.org/v1/x"]);
  assert.deepEqual(samplesOf("https://a.org", "/v1/y", { responses: { 101: {} } }), ["wss://a.org/v1/y"]);
});

test("paragraphs and code", () => {
  assert.deepEqual(paragraphsOf("One\nline `a`.\n\nTwo.\n"), [["One line ", "a", "."], ["Two."]]);
});
