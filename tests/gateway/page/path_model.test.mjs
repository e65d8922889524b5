// What the picture of a path shows. test_page_modules.py compares plans with conch.wire.needs.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  COMPONENTS,
  duration,
  inWords,
  onOneScale,
  plan,
  planned,
  taken,
} from "../../../src/conch/gateway/page/path_model.js";

const STAGES = {
  vad: { calls: 1, ms: 20 },
  attention_encoder: { calls: 2, ms: 300 },
  attention_decoder: { calls: 2, ms: 150 },
  total: { calls: 1, ms: 400 },
};

const lit = (model) =>
  model.wires
    .filter((wire) => wire.isLit)
    .map((wire) => `${wire.from}>${wire.to}`)
    .sort();
const withState = (model, state) =>
  model.boxes.filter((box) => box.state === state).map((box) => box.name);

test("what was called is lit, the rest is pale", () => {
  const model = taken(STAGES);
  assert.deepEqual(withState(model, "called"), ["vad", "attention_encoder", "attention_decoder"]);
  assert.equal(withState(model, "pale").length, COMPONENTS.length - 3);
  assert.deepEqual(lit(model), [
    "attention_decoder>text",
    "attention_encoder>attention_decoder",
    "audio>vad",
    "vad>attention_encoder",
  ]);
});

test("bars share one scale, the longest of total and components", () => {
  const shares = (stages) =>
    Object.fromEntries(taken(stages).boxes.map((box) => [box.name, box.share]));
  assert.equal(shares(STAGES).attention_encoder, 0.75);
  const parallel = { ...STAGES, attention_encoder: { calls: 9, ms: 1600 } };
  assert.equal(shares(parallel).attention_encoder, 1);
  assert.equal(shares(parallel).vad, 20 / 1600);
  assert.equal(taken(STAGES).total, 400);
  // A live session has no total.
  const { total, ...live } = STAGES;
  assert.equal(total.ms, 400);
  assert.equal(shares(live).attention_encoder, 1);
  assert.equal(taken(live).total, 0);
});

test("two pictures to compare share one scale", () => {
  const slow = taken({ ...STAGES, total: { calls: 1, ms: 1200 } });
  const [one, other] = onOneScale([taken(STAGES), slow]);
  assert.deepEqual([one.longest, other.longest], [1200, 1200]);
  for (const model of [one, other]) {
    assert.equal(model.boxes.find((box) => box.name === "attention_encoder").share, 0.25);
  }
  assert.deepEqual([one.total, other.total], [400, 1200]);
});

test("rescoring stands between decoders and text", () => {
  const model = taken({ ...STAGES, neural_rescorer: { calls: 1, ms: 5 } });
  assert.ok(lit(model).includes("attention_decoder>neural_rescorer"));
  assert.ok(lit(model).includes("neural_rescorer>text"));
  assert.ok(!lit(model).includes("attention_decoder>text"));
});

test("wires pass what is not called", () => {
  const model = taken({ ctc_decoder: { calls: 1, ms: 1 } });
  assert.deepEqual(lit(model), ["audio>ctc_decoder", "ctc_decoder>text"]);
});

test("no wire is drawn twice, and the lit ones lie above", () => {
  const wires = taken({ ...STAGES, rescorer: { calls: 1, ms: 5 } }).wires;
  const names = wires.map((wire) => `${wire.from}>${wire.to}`);
  assert.equal(new Set(names).size, names.length);
  const places = wires.map((wire) => wire.isLit);
  assert.deepEqual(places, [...places].sort());
});

test("a component that the page does not know is told as well", () => {
  const model = taken({ ...STAGES, diariser: { calls: 3, ms: 200 } });
  assert.deepEqual(
    model.others.map((box) => [box.name, box.calls, box.share]),
    [["diariser", 3, 0.5]],
  );
  assert.match(inWords(model), /diariser 3 times/);
});

test("a component with a stage but no calls was not called", () => {
  assert.deepEqual(withState(taken({ vad: { calls: 0, ms: 0 } }), "called"), []);
});

test("a plan is outlined, not lit as called", () => {
  const model = plan(planned({ accuracy: "best" }));
  assert.deepEqual(withState(model, "called"), []);
  assert.deepEqual(withState(model, "planned"), [
    "vad",
    "attention_encoder",
    "ctc_encoder",
    "attention_decoder",
    "ctc_decoder",
    "neural_rescorer",
  ]);
  assert.match(inWords(model), /^Will call vad, /);
});

test("in words", () => {
  assert.equal(
    inWords(taken(STAGES)),
    "Called vad once, 20 ms; attention_encoder 2 times, 300 ms; attention_decoder 2 times, " +
      "150 ms. In all 400 ms.",
  );
  assert.equal(inWords(taken({})), "No component is called.");
});

test("durations", () => {
  const texts = [0.04, 3.14159, 9.96, 99.4, 994.6, 999, 1449, 9940, 12345].map(duration);
  assert.deepEqual(texts, [
    "0.0 ms",
    "3.1 ms",
    "10 ms",
    "99 ms",
    "995 ms",
    "1.0 s",
    "1.4 s",
    "9.9 s",
    "12 s",
  ]);
});

test("what a live session may still call is outlined, and is no part of the words", () => {
  const model = taken({ vad: { calls: 3, ms: 9 } }, new Set(["vad", "attention_encoder"]));
  assert.deepEqual(withState(model, "called"), ["vad"]);
  assert.deepEqual(withState(model, "planned"), ["attention_encoder"]);
  assert.equal(inWords(model), "Called vad 3 times, 9.0 ms.");
});
