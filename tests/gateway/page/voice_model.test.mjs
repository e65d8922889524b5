// What the page says of a voice that is fitted to recordings.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  canSpeak,
  figuresOf,
  isRunning,
  pointsOf,
  statusOf,
} from "../../../src/conch/gateway/page/voice_model.js";

const QUEUED = {
  ...{ name: "anna", status: "queued", mix: "", similarity: null, start_similarity: null },
  ...{ wer: null, seconds_left: 600, curve: [], warnings: [], error: "" },
};
const FITTING = {
  ...{ ...QUEUED, status: "fitting", mix: "af_sky:0.40,am_puck:0.60", similarity: 0.573 },
  ...{ start_similarity: 0.14, wer: 1.3, seconds_left: 301, curve: [[0, 0.14]] },
};

test("the status is told in words", () => {
  const failed = { ...FITTING, status: "failed", error: "no memory is left" };
  const ready = { ...FITTING, status: "ready" };
  const voices = [QUEUED, FITTING, ready, failed];
  assert.deepEqual(voices.map(statusOf), [
    "Waiting for its turn.",
    "Being fitted.",
    "Ready.",
    "Failed: no memory is left",
  ]);
  assert.deepEqual(voices.map(isRunning), [true, true, false, false]);
});

test("a voice can speak from the first point of its curve on", () => {
  assert.equal(canSpeak(QUEUED), false);
  assert.equal(canSpeak({ ...FITTING, curve: [] }), false);
  assert.equal(canSpeak(FITTING), true);
  assert.equal(canSpeak({ ...FITTING, status: "ready" }), true);
  assert.equal(canSpeak({ ...FITTING, status: "failed" }), false);
});

test("figures that are not known are left out", () => {
  assert.equal(figuresOf(QUEUED), "");
  assert.equal(figuresOf(FITTING), "similarity 0.57 (was 0.14), WER 1.3 %, 5 min left");
  assert.equal(
    figuresOf({ ...FITTING, wer: null, seconds_left: 41.6 }),
    "similarity 0.57 (was 0.14), 42 s left",
  );
  assert.equal(figuresOf({ ...FITTING, similarity: null, status: "ready", wer: 0 }), "WER 0.0 %");
});

test("a curve goes from the left to the right, and up", () => {
  const curve = [
    [0, 0],
    [20, 0.5],
    [80, 1],
  ];
  assert.deepEqual(pointsOf(curve, 320, 100), [
    [0, 100],
    [80, 50],
    [320, 0],
  ]);
  assert.deepEqual(pointsOf([[0, 0.25]], 320, 100), [[0, 75]]);
  // Recordings may be less alike than chance.
  assert.deepEqual(pointsOf([[0, -0.1]], 320, 100), [[0, 100]]);
});
