// The words that a download has of an utterance whose server was lost before its second pass.

import assert from "node:assert/strict";
import { test } from "node:test";

import { LiveModel } from "../../../src/conch/gateway/page/live_model.js";

/** Return the transcript after a server was lost that had told so much of an utterance. */
function afterLoss(text, firm, texts) {
  const live = new LiveModel();
  const at = { index: 0, start: 1 };
  const parts = { firm, tentative: text.slice(firm.length), newest: "", text };
  live.take({ type: "text", ...at, ...parts, audio_s: 3 }, 3);
  const words = texts.map((word, place) => ({ text: word, start: 1 + place, end: 2 + place }));
  const ended = { end: 1 + texts.length, endpoint: "silence", final: false };
  live.take({ type: "segment", ...at, ...ended, text, words }, 5);
  live.resume({ startS: 4, toldS: 4 });
  return live.transcript();
}

/** Return the words of its one segment. */
function wordsOf({ segments }) {
  assert.equal(segments.length, 1);
  return segments[0].words.map((word) => word.text);
}

test("the firm words keep their times", () => {
  const found = afterLoss("He even thought", "He even", ["He", "even", "thought"]);
  assert.equal(found.segments[0].text, "He even");
  assert.deepEqual(wordsOf(found), ["He", "even"]);
});

test("scripts without spaces lose no words", () => {
  const found = afterLoss("今日は晴れ", "今日は", ["今日", "は", "晴れ"]);
  assert.deepEqual(wordsOf(found), ["今日", "は"]);
  assert.equal(found.segments[0].text, "今日は");
});

test("words that are not those of the text are left out, and not a part of them", () => {
  const found = afterLoss("At 10 he came", "At 10 he", ["at", "ten", "he", "came"]);
  assert.deepEqual(wordsOf(found), []);
  assert.equal(found.segments[0].text, "At 10 he");
  assert.deepEqual(wordsOf(afterLoss("今日は晴れ", "今日は", ["今日は晴れ"])), []);
});
