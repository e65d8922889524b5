// The names that a user gives to speakers, in what is saved.

import assert from "node:assert/strict";
import { test } from "node:test";

import { renamed } from "../../../src/conch/gateway/page/speakers_view.js";

const TRANSCRIPT = {
  text: "Hello. Hi. Bye.",
  segments: [
    { text: "Hello.", speaker: "A", words: [{ text: "Hello.", speaker: "A" }] },
    { text: "Hi.", speaker: "B" },
    { text: "Bye.", speaker: "C" },
  ],
  turns: [{ speaker: "B", start: 1, end: 2 }],
  speakers: [
    { name: "A", seconds: 3 },
    { name: "B", seconds: 4 },
    { name: "C", seconds: 5 },
  ],
  overlaps: [{ start: 1, end: 2, speakers: ["A", "B"] }],
};

test("without names nothing changes", () => {
  assert.equal(renamed(TRANSCRIPT, new Map()), TRANSCRIPT);
});

test("two labels with one name are one speaker", () => {
  const names = new Map([
    ["A", "Ann"],
    ["B", "Ann"],
  ]);
  const { text, segments, turns, speakers, overlaps } = renamed(TRANSCRIPT, names);
  assert.equal(text, TRANSCRIPT.text);
  assert.deepEqual(
    segments.map((segment) => segment.speaker),
    ["Ann", "Ann", "C"],
  );
  assert.equal(segments[0].words[0].speaker, "Ann");
  assert.deepEqual(turns, [{ speaker: "Ann", start: 1, end: 2 }]);
  assert.deepEqual(speakers, [
    { name: "Ann", seconds: 7 },
    { name: "C", seconds: 5 },
  ]);
  assert.deepEqual(overlaps[0].speakers, ["Ann"]);
});

test("a transcript without speakers gets none", () => {
  const plain = { text: "Hello.", segments: [{ text: "Hello." }] };
  assert.deepEqual(renamed(plain, new Map([["A", "Ann"]])), plain);
});
