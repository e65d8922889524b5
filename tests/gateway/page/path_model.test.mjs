// What the picture of a path shows. What a request needs is told by the server.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  duration,
  inWords,
  onOneScale,
  plan,
  stepsOf,
  taken as takenOf,
} from "../../../src/conch/gateway/page/path_model.js";

const component = (name, family, step) => ({ name, title: name, family, step, needed: null });
const COMPONENTS = [
  component("vad", "vad", "find speech"),
  component("attention_encoder", "attention", "encode"),
  component("ctc_encoder", "ctc", "encode"),
  component("attention_decoder", "attention", "decode"),
  component("ctc_decoder", "ctc", "decode"),
  component("neural_rescorer", "neural", "rescore"),
  component("rescorer", "ngram", "rescore"),
  component("punctuator", "punctuation", "write"),
];
const needing = (...names) =>
  COMPONENTS.map((one) => ({ ...one, needed: names.includes(one.name) ? "decoder=ctc" : null }));
const taken = (stages) => takenOf(COMPONENTS, stages);

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
  const called = { calls: 1, ms: 1 };
  const written = taken({ attention_encoder: called, ctc_decoder: called, punctuator: called });
  assert.deepEqual(lit(written), [
    "attention_encoder>text",
    "audio>attention_encoder",
    "audio>ctc_decoder",
    "ctc_decoder>punctuator",
    "punctuator>text",
  ]);
});

test("each family has a lane, and steps without it take all of them", () => {
  const wires = plan(COMPONENTS).wires.map(({ from, to }) => `${from}>${to}`);
  assert.deepEqual(wires, [
    ...["audio>vad", "vad>attention_encoder", "vad>ctc_encoder"],
    ...["attention_encoder>attention_decoder", "ctc_encoder>ctc_decoder"],
    ...["attention_decoder>neural_rescorer", "ctc_decoder>neural_rescorer"],
    ...["attention_decoder>rescorer", "ctc_decoder>rescorer"],
    ...["neural_rescorer>punctuator", "rescorer>punctuator", "punctuator>text"],
  ]);
  assert.deepEqual(
    stepsOf(COMPONENTS).map((step) => step.length),
    [1, 2, 2, 2, 1],
  );
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
  const model = plan(
    needing("vad", "attention_encoder", "ctc_encoder", "attention_decoder", "ctc_decoder"),
  );
  assert.deepEqual(withState(model, "called"), []);
  assert.deepEqual(withState(model, "planned"), [
    "vad",
    "attention_encoder",
    "ctc_encoder",
    "attention_decoder",
    "ctc_decoder",
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
  const called = { vad: { calls: 3, ms: 9 } };
  const components = needing("vad", "attention_encoder");
  const model = takenOf(components, called, true);
  assert.deepEqual(withState(model, "called"), ["vad"]);
  assert.deepEqual(withState(model, "planned"), ["attention_encoder"]);
  assert.equal(inWords(model), "Called vad 3 times, 9.0 ms.");
  assert.deepEqual(withState(takenOf(components, called), "planned"), []);
});
