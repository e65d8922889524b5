// What the page makes of a live session's messages.

import assert from "node:assert/strict";
import { test } from "node:test";

import { LiveModel, pressureOf, told } from "../../../src/conch/gateway/page/live_model.js";
import { piecesThatStay, runsOf } from "../../../src/conch/gateway/page/live_runs.js";

const spoken = (index, firm, tentative, newest, audio_s) => ({
  ...{ type: "text", index, start: 1, firm, tentative, newest, audio_s },
  text: [firm, tentative, newest].filter(Boolean).join(" "),
});
const segment = (index, text, final) => ({
  ...{ type: "segment", index, start: 1, end: 3, text, final, endpoint: "silence", words: [] },
});

const textsOf = (live) => live.transcript().segments.map((segment) => segment.text);

test("the three parts keep the spaces between them", () => {
  const made = new LiveModel().take(spoken(0, "He even", "thought of", "him now", 2), 2.5);
  assert.deepEqual(
    [made.firm, made.tentative, made.newest],
    ["He even", " thought of ", "him now"],
  );
  const unspaced = { ...spoken(0, "今日", "は", "晴", 2), text: "今日は晴" };
  const parts = new LiveModel().take(unspaced, 2.5);
  assert.deepEqual([parts.firm, parts.tentative, parts.newest], ["今日", "は", "晴"]);
});

test("an utterance that ended waits for its second pass, which replaces its text", () => {
  const live = new LiveModel();
  live.take(spoken(0, "He even", "thought", "", 2), 2.5);
  const first = live.take(segment(0, "He even thought so", false), 4);
  assert.deepEqual([first.firm, first.tentative, first.isFinal], ["He even", " thought so", false]);
  const second = live.take(segment(0, "He ever thought so.", true), 5);
  assert.deepEqual([second.firm, second.tentative], ["He ever thought so.", ""]);
  assert.deepEqual([second.isFinal, second.isOpen], [true, false]);
  assert.equal(live.utterances.size, 1);
});

test("a late text message does not open an utterance again", () => {
  const live = new LiveModel();
  live.take(segment(0, "Done.", true), 4);
  assert.equal(live.take(spoken(0, "", "", "done", 4), 4), null);
  assert.equal(live.utterances.get(0).firm, "Done.");
});

test("the lag is audio sent minus audio recognised", () => {
  const live = new LiveModel();
  assert.equal(live.lag, null);
  live.take({ type: "stats", audio_s: 4 }, 5.5);
  assert.equal(live.lag, 1.5);
  // A finalize may recognise what had not been counted as sent.
  live.take({ type: "stats", audio_s: 6 }, 5.9);
  assert.equal(live.lag, 0);
});

test("the firm lag counts from when a word was first shown", () => {
  const live = new LiveModel();
  live.take(spoken(0, "", "", "one two", 2), 2.5);
  live.take(spoken(0, "", "one two", "three", 3), 3.5);
  assert.equal(live.firmLag, null);
  live.take(spoken(0, "one two", "three", "", 4), 4.5);
  assert.equal(live.firmLag, 2.5);
  live.take(segment(0, "one two three", true), 6);
  assert.equal(live.firmLag, 3);
});

test("words that were taken back are counted anew", () => {
  const live = new LiveModel();
  live.take(spoken(0, "", "", "one two", 1), 1);
  live.take(spoken(0, "", "", "one", 2), 2);
  live.take(spoken(0, "", "", "one too", 3), 3);
  live.take(spoken(0, "one too", "", "", 4), 4);
  assert.equal(live.firmLag, 1);
});

test("all that was said makes a transcript, in order", () => {
  const live = new LiveModel();
  live.take(segment(1, "Second.", true), 4);
  live.take(segment(0, "First.", true), 4);
  live.take(segment(2, "", true), 4);
  live.take({ ...spoken(3, "And", "so", "on", 9), start: 8 }, 9);
  const made = live.transcript();
  assert.deepEqual(textsOf(live), ["First.", "Second.", "And so on"]);
  assert.deepEqual(
    made.segments.map((one) => one.index),
    [0, 1, 3],
  );
  assert.deepEqual([made.duration, made.segments[2].end], [9, 8]);
});

test("another session goes on after what was said", () => {
  const live = new LiveModel();
  live.begin();
  live.take(segment(0, "First.", true), 3);
  live.take(spoken(1, "And", "so", "on", 4), 4.5);
  const [left] = live.finish();
  assert.deepEqual([left.index, left.isOpen, left.newest], [1, false, ""]);
  assert.equal(left.tentative, " so on");

  live.begin();
  assert.deepEqual([live.startS, live.firstIndex, live.lag, live.firmLag], [4, 2, null, null]);
  const words = [{ text: "Second.", start: 1.5, end: 2, confidence: 0.9 }];
  const second = live.take({ ...segment(0, "Second.", true), words }, 3);
  assert.deepEqual([second.index, second.start, second.end], [2, 5, 7]);
  assert.deepEqual(second.words, [{ text: "Second.", start: 5.5, end: 6, confidence: 0.9 }]);
  live.take({ type: "stats", audio_s: 4 }, 5);
  assert.equal(live.lag, 1);
  const made = live.transcript();
  assert.deepEqual(textsOf(live), ["First.", "And so on", "Second."]);
  assert.equal(made.duration, 8);
});

test("a session without words moves neither numbers nor times", () => {
  const live = new LiveModel();
  live.begin();
  assert.deepEqual(live.finish(), []);
  live.begin();
  assert.deepEqual([live.startS, live.firstIndex], [0, 0]);
});

test("only the common beginning of two texts stays", () => {
  const run = (text, who = "", begins = false) => ({ who, text, begins });
  const pieces = ["He even", " thought", " of him"].map((text) => run(text));
  const staying = (text) => piecesThatStay(pieces, [run(text)]);
  assert.deepEqual(staying("He even thought of him now"), { kept: 3, rest: [run(" now")] });
  assert.deepEqual(staying("He even thought so of him"), { kept: 2, rest: [run(" so of him")] });
  assert.equal(staying("He ever").kept, 0);
  assert.deepEqual(piecesThatStay([], [run("He")]), { kept: 0, rest: [run("He")] });
  const said = [run("He even", "A", true), run(" thought", "A"), run(" so", "B", true)];
  const longer = [run("He even thought", "A", true), run(" so what", "B", true)];
  assert.deepEqual(piecesThatStay(said, longer), { kept: 3, rest: [run(" what", "B")] });
  const other = [run("He even thought so", "A", true)];
  assert.deepEqual(piecesThatStay(said, other), { kept: 2, rest: [run(" so", "A")] });
});

test("the text is cut where the speaker changes", () => {
  const live = new LiveModel();
  const words = (who) =>
    ["He", "even", "so", "on"].map((text, at) => ({
      ...{ text, start: 1 + at, end: 2 + at },
      ...(who[at] !== "-" && { speaker: who[at] }),
    }));
  const said = (who) =>
    runsOf(live.take({ ...spoken(0, "He even", "so", "on", 6), words: words(who) }, 6));
  const run = (who, text, begins) => ({ who, text, begins });
  assert.deepEqual(said("ABB-"), {
    firm: [run("A", "He", true), run("B", " even", true)],
    tentative: [run("B", " so ", false)],
    newest: [run("", "on", false)],
  });
  assert.deepEqual(said("----").firm, [run("", "He even", false)]);
  assert.deepEqual(live.speakers, []);
  said("ABBA");
  const seconds = { A: 2, B: 2 };
  assert.deepEqual(Object.fromEntries(live.speakers.map((one) => [one.name, one.seconds])), seconds);
  const [changed] = live.relabel([{ speaker: "A", start: 1.6, end: 3.4 }]);
  assert.deepEqual(
    changed.words.map((word) => word.speaker),
    ["A", "A", "B", "A"],
  );
  assert.equal(live.transcript().segments[0].speaker, "A");
  live.begin();
  const again = live.take({ ...segment(0, "Yes.", true), words: [{ ...words("A")[0], text: "Yes." }] }, 9);
  assert.equal(again.words[0].speaker, "A");
  live.begin();
  const later = live.take({ ...segment(0, "No.", true), words: [{ ...words("A")[0], text: "No." }] }, 9);
  assert.equal(later.words[0].speaker, "A.2");
});

test("the end of a session says why it ended", () => {
  const fine = { problem: "", wasOn: false, droppedS: 0 };
  const end = { reason: "end", message: "" };
  assert.deepEqual(told(end, fine), { text: "Ended.", isProblem: false });
  assert.deepEqual(told(end, { ...fine, relabelled: 2 }), {
    text: "Ended. Labelled again: 2 with another speaker.",
    isProblem: false,
  });
  assert.deepEqual(told(end, { ...fine, wasOn: true }), {
    text: "The server ended the session.",
    isProblem: true,
  });
  assert.equal(told(end, { ...fine, wasOn: true, problem: "Too long." }).text, "Too long.");
  assert.deepEqual(told(end, { ...fine, droppedS: 2.44 }), {
    text: "Ended. The network was too slow: 2.4 s of audio were left out.",
    isProblem: true,
  });
  const lost = { reason: "lost", message: "The connection broke." };
  assert.deepEqual(told(lost, { ...fine, problem: "Before." }), {
    text: "The connection broke.",
    isProblem: true,
  });
});

test("audio that the network does not take is told of, then dropped", () => {
  assert.deepEqual([0, 1, 1.5, 8, 9].map(pressureOf), ["fine", "fine", "late", "late", "drop"]);
});

test("another session goes on behind what is firm", () => {
  const live = new LiveModel();
  live.take(segment(0, "Done.", true), 4);
  live.take(spoken(1, "He even", "thought", "of him", 6), 7);
  const [kept] = live.resume({ startS: 5, toldS: 5.5 });
  assert.deepEqual([kept.firm, kept.tentative, kept.newest], ["He even", "", ""]);
  assert.deepEqual([kept.isFinal, kept.endpoint, kept.end], [true, "lost", 5.5]);
  const next = live.take(segment(0, "thought of him.", true), 3);
  assert.deepEqual([next.index, next.start, next.end], [2, 6, 8]);
  assert.deepEqual(textsOf(live), ["Done.", "He even", "thought of him."]);
  // Of those that await their second pass, the first keeps its firm words.
  live.take(spoken(1, "So", "it", "is", 4), 4);
  live.take(segment(1, "So it is", false), 4);
  live.take(segment(2, "and was", false), 5);
  live.take(spoken(3, "", "", "here", 6), 6);
  assert.equal(live.resume({ startS: 4, toldS: 4.4 }).length, 3);
  assert.deepEqual(textsOf(live), ["Done.", "He even", "thought of him.", "So"]);
  live.take(segment(0, "It is and was here.", true), 6);
  assert.equal(live.transcript().segments.at(-1).index, 6);
  assert.equal(live.transcript().segments.at(-1).start, 10);
});
