// Downloads of the page. test_page_modules.py compares them with conch.wire.formats as well.

import assert from "node:assert/strict";
import { test } from "node:test";

import { toJson, toSrt, toTxt, toVtt } from "../../../src/conch/gateway/page/formats.js";

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
    "1\n00:00:00,500 --> 00:00:01,717\nHello there.\n\n" +
      "2\n00:00:01,800 --> 00:00:02,800\nFine <day>\n\n" +
      "3\n01:01:01,500 --> 01:01:02,677\nno -> words & times\n\n",
  );
});

test("WebVTT", () => {
  assert.equal(
    toVtt(SAID),
    "WEBVTT\n\n00:00:00.500 --> 00:00:01.717\nHello there.\n\n" +
      "00:00:01.800 --> 00:00:02.800\nFine &lt;day&gt;\n\n" +
      "01:01:01.500 --> 01:01:02.677\nno --&gt; words &amp; times\n\n",
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
  const chinese = turns.map((turn) => ({ ...turn, text: "你好。" }));
  const both = { ...transcript(...chinese), channels: [{}, {}] };
  assert.equal(toTxt(both), "[1] 你好。你好。\n[2] 你好。你好。\n");
});

test("JSON is all that the server said", () => {
  assert.deepEqual(JSON.parse(toJson({ ...SAID, extra: 1 })), { ...SAID, extra: 1 });
});
