// Downloads of the page. test_page_modules.py compares them with conch.wire.formats as well.

import assert from "node:assert/strict";
import { test } from "node:test";

import { cuesOf, toJson, toSrt, toTxt, toVtt } from "../../../src/conch/gateway/page/formats.js";

const word = (text, start, end) => ({ text, start, end, confidence: 0.9 });
const transcript = (...segments) => ({
  text: segments.map((segment) => segment.text).join(" "),
  segments,
});

const SAID = transcript(
  {
    text: "Hello there. Fine <day>",
    start: 0,
    end: 5,
    words: [
      word("Hello", 0.5, 1),
      word("there.", 1.1, 1.75),
      word("Fine", 1.8, 2.1),
      word("<day>", 2.1, 2.6),
    ],
  },
  { text: "no --> words & times", start: 3661.5, end: 3662 },
);

test("SubRip", () => {
  assert.equal(
    toSrt(SAID),
    "1\n00:00:00,500 --> 00:00:01,750\nHello there.\n\n" +
      "2\n00:00:01,800 --> 00:00:02,600\nFine <day>\n\n" +
      "3\n01:01:01,500 --> 01:01:02,000\nno -> words & times\n\n",
  );
});

test("WebVTT", () => {
  assert.equal(
    toVtt(SAID),
    "WEBVTT\n\n00:00:00.500 --> 00:00:01.750\nHello there.\n\n" +
      "00:00:01.800 --> 00:00:02.600\nFine &lt;day&gt;\n\n" +
      "01:01:01.500 --> 01:01:02.000\nno --&gt; words &amp; times\n\n",
  );
});

test("text is one line, or one line per turn of split channels", () => {
  assert.equal(toTxt(SAID), "Hello there. Fine <day> no --> words & times\n");
  const turns = [
    { text: "a", start: 0, end: 1, channel: 1 },
    { text: "b", start: 1, end: 2, channel: 1 },
    { text: "", start: 2, end: 3, channel: 2 },
    { text: "c", start: 3, end: 4, channel: 2 },
  ];
  assert.equal(toTxt({ ...transcript(...turns), channels: [{}, {}] }), "[1] a b\n[2] c\n");
});

test("JSON is all that the server said", () => {
  assert.deepEqual(JSON.parse(toJson({ ...SAID, extra: 1 })), { ...SAID, extra: 1 });
});

test("a pause ends a cue, and a cue is not shown for longer than 7 s", () => {
  const words = [word("one", 0, 0.4), word("two", 1, 1.2), word("slow", 1.3, 30)];
  const cues = cuesOf(transcript({ text: "one two slow", start: 0, end: 30, words }));
  assert.deepEqual(
    cues.map((cue) => [cue.startMs, cue.endMs, cue.lines]),
    [
      [0, 400, ["one"]],
      [1000, 1200, ["two"]],
      [1300, 8300, ["slow"]],
    ],
  );
});

test("a cue has two lines of 42 characters at most, and ends at a clause where it can", () => {
  const texts = Array.from({ length: 40 }, (_, at) => (at === 8 ? "word-8," : `word-${at}`));
  const words = texts.map((text, at) => word(text, at * 0.1, at * 0.1 + 0.1));
  const cues = cuesOf(transcript({ text: texts.join(" "), start: 0, end: 4, words }));
  assert.ok(cues.every((cue) => cue.lines.length <= 2));
  assert.ok(cues.every((cue) => cue.lines.every((line) => line.length <= 42)));
  assert.ok(cues[0].lines.at(-1).endsWith("word-8,"));
  assert.equal(cues.map((cue) => cue.lines.join(" ")).join(" "), texts.join(" "));
});

test("cues do not overlap", () => {
  const words = [word("a.", 0, 2), word("b.", 1.5, 3)];
  const cues = cuesOf(transcript({ text: "a. b.", start: 0, end: 3, words }));
  assert.deepEqual(
    cues.map((cue) => [cue.startMs, cue.endMs]),
    [
      [0, 2000],
      [2000, 3000],
    ],
  );
});
