// What a user corrects, in what is saved.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Corrections, continues, corrected } from "../../../src/conch/gateway/page/corrections.js";

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

test("without corrections nothing changes", () => {
  assert.equal(corrected(TRANSCRIPT, {}), TRANSCRIPT);
});

test("two labels with one name are one speaker", () => {
  const names = new Map([
    ["A", "Ann"],
    ["B", "Ann"],
  ]);
  const { text, segments, turns, speakers, overlaps } = corrected(TRANSCRIPT, { names });
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
  assert.deepEqual(corrected(plain, { names: new Map([["A", "Ann"]]) }), plain);
});

const spoken = (text, start, speaker) => {
  const words = text.split(" ").map((word, at) => ({
    ...{ text: word, start: start + at, end: start + at + 1, confidence: 0.6, speaker },
  }));
  const end = start + words.length;
  return { text, start, end, speaker, words, nbest: [{ text, score: -1 }, { text: "other" }] };
};
const TALK = {
  text: "One tow three. Four. Five six.",
  nbest: [{ text: "One tow three. Four. Five six.", score: -3 }],
  segments: [
    spoken("One tow three.", 0, "A"),
    spoken("Four.", 3, "A"),
    spoken("Five six.", 10, "B"),
  ],
  turns: [
    { speaker: "A", start: 0.1, end: 2.9 },
    { speaker: "A", start: 3.1, end: 3.9 },
    { speaker: "B", start: 10, end: 12 },
  ],
  overlaps: [{ start: 0.5, end: 1, speakers: ["A", "B"] }],
  speakers: [
    { name: "A", seconds: 3.6 },
    { name: "B", seconds: 2 },
  ],
};
const edited = (...edits) => {
  const corrections = new Corrections();
  edits.forEach((edit) => corrections.add(edit));
  return corrected(TALK, corrections.changes());
};

test("a word is another one in its segment, in the whole text and in the best text", () => {
  const said = edited({ segment: 0, word: 1, text: "two" });
  assert.equal(said.text, "One two three. Four. Five six.");
  assert.equal(said.nbest[0].text, said.text);
  assert.equal(said.segments[0].text, "One two three.");
  assert.deepEqual(said.segments[0].nbest, [
    { text: "One two three.", score: -1 },
    { text: "other" },
  ]);
  const word = { text: "two", start: 1, end: 2, confidence: 1, speaker: "A" };
  assert.deepEqual(said.segments[0].words[1], word);
  assert.deepEqual(said.segments.slice(1), TALK.segments.slice(1));
  assert.equal(TALK.segments[0].words[1].text, "tow");
});

test("several words share the time of the one that they replace", () => {
  const { words, text } = edited({ segment: 1, word: 0, text: "A bcd" }).segments[1];
  assert.equal(text, "A bcd");
  assert.deepEqual(
    words.map(({ text, start, end }) => [text, start, end]),
    [
      ["A", 3, 3.25],
      ["bcd", 3.25, 4],
    ],
  );
});

test("a word that nobody said takes its space along", () => {
  const said = edited({ segment: 0, word: 0, text: "" }, { segment: 1, word: 0, text: "" });
  assert.equal(said.text, "tow three. Five six.");
  assert.deepEqual(said.segments[1].words, []);
  assert.equal(said.segments[1].text, "");
});

test("letters of scripts without spaces stay together", () => {
  const words = [..."你好吗"].map((text, at) => ({ text, start: at, end: at + 1 }));
  const transcript = { text: "你好吗", segments: [{ text: "你好吗", start: 0, end: 3, words }] };
  assert.equal(corrected(transcript, { words: new Map([["0 1", "们"]]) }).text, "你们吗");
});

test("a turn is given to another speaker, who may have a name", () => {
  const said = edited({ segments: [0], speaker: "C" }, { label: "C", name: "Cy" });
  assert.deepEqual(
    said.segments.map(({ speaker }) => speaker),
    ["Cy", "A", "B"],
  );
  assert.ok(said.segments[0].words.every(({ speaker }) => speaker === "Cy"));
  assert.deepEqual(
    said.turns.map(({ speaker }) => speaker),
    ["Cy", "A", "B"],
  );
  assert.deepEqual(said.overlaps[0].speakers, ["Cy", "B"]);
  assert.deepEqual(
    said.speakers.map(({ name, seconds }) => [name, seconds.toFixed(1)]),
    [
      ["Cy", "2.8"],
      ["A", "0.8"],
      ["B", "2.0"],
    ],
  );
});

test("a speaker to whom no turn goes has the seconds of his segments", () => {
  const talk = { ...TALK, turns: TALK.turns.filter(({ start }) => start !== 3.1) };
  const { turns, speakers } = corrected(talk, { speakers: new Map([[1, "C"]]) });
  assert.deepEqual(turns, talk.turns);
  assert.deepEqual(
    speakers.map(({ name, seconds }) => [name, seconds.toFixed(1)]),
    [
      ["A", "2.8"],
      ["B", "2.0"],
      ["C", "1.0"],
    ],
  );
});

test("speakers keep what else is known of them", () => {
  const speakers = [
    { name: "A", seconds: 3.6, embedding: "a" },
    { name: "B", seconds: 2, embedding: "b" },
  ];
  const talk = { ...TALK, speakers };
  assert.equal(corrected(talk, { words: new Map([["0 1", "two"]]) }).speakers, speakers);
  const names = new Map([
    ["A", "Ann"],
    ["B", "Ann"],
  ]);
  assert.deepEqual(corrected(talk, { names }).speakers, [
    { name: "Ann", seconds: 5.6, embedding: "a" },
  ]);
  const given = corrected(talk, { speakers: new Map([[0, "C"]]) }).speakers;
  assert.deepEqual(
    given.map(({ name, embedding }) => [name, embedding]),
    [
      ["C", undefined],
      ["A", "a"],
      ["B", "b"],
    ],
  );
});

test("what is undone holds again, until there is another edit", () => {
  const corrections = new Corrections();
  const first = { segment: 0, word: 1, text: "two" };
  const second = { segment: 0, word: 0, text: "Once" };
  corrections.add(first);
  corrections.add(second);
  assert.equal(corrections.undo(), second);
  assert.deepEqual([...corrections.changes().words], [["0 1", "two"]]);
  assert.equal(corrections.redo(), second);
  assert.equal(corrections.redo(), undefined);
  corrections.undo();
  corrections.undo();
  assert.equal(corrections.undo(), undefined);
  const again = new Corrections(structuredClone(corrections));
  assert.deepEqual(again.redo(), first);
  again.add({ label: "A", name: "A" });
  again.add({ label: "A", name: "Ann" });
  assert.equal(again.redo(), undefined);
  assert.deepEqual(again.changes().names, new Map([["A", "Ann"]]));
  again.undo();
  assert.equal(again.changes().names.size, 0);
  assert.deepEqual([...again.changes().words], [["0 1", "two"]]);
});

test("a paragraph ends at a pause, at another speaker and when it is long", () => {
  const at = (start, end, speaker = "A") => ({ start, end, speaker });
  assert.ok(!continues([], at(0, 1)));
  assert.ok(continues([at(0, 1)], at(3.9, 5)));
  assert.ok(!continues([at(0, 1)], at(4, 5)));
  assert.ok(!continues([at(0, 1)], at(1, 2, "B")));
  assert.ok(!continues([at(0, 20), at(20, 46)], at(46, 50)));
});
