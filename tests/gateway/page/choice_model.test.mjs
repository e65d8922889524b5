// Which options the page sends.

import assert from "node:assert/strict";
import { test } from "node:test";

import { fieldsOf, inWords } from "../../../src/conch/gateway/page/choice_model.js";

const option = (name, kind, value, more = {}) => ({
  ...{ name, kind, default: value, low: null, high: null, choices: null, help: "", decoders: [] },
  ...{ live_decoders: more.decoders ?? [], by_accuracy: false, live: true, recordings: true },
  ...more,
});
const OPTIONS = [
  option("nbest", "int", 1),
  option("lm_weight", "float", null),
  option("vad", "bool", true),
  option("language", "str", "auto"),
  option("hotwords", "str", "", { decoders: ["ctc"], live_decoders: ["ctc", "attention"] }),
  option("attention_rescore", "bool", false, { decoders: ["ctc", "wfst"], by_accuracy: true }),
  option("partials", "bool", true, { recordings: false }),
  option("channels", "int", "mix", { choices: ["mix", "split"], low: 1, high: 64, live: false }),
];
const AS_SHOWN = {
  ...{ nbest: "", lm_weight: "", vad: true, language: "auto", hotwords: "" },
  ...{ attention_rescore: "", partials: true, channels: "mix" },
};
const sent = (values, decoder, isLive = false) =>
  fieldsOf(OPTIONS, { ...AS_SHOWN, ...values }, decoder, isLive);

test("a form that nobody touched sends nothing", () => {
  assert.deepEqual(sent({}), {});
  assert.deepEqual(sent({}, "ctc", true), {});
});

test("what was changed is sent, numbers as numbers", () => {
  const changed = { nbest: "3", lm_weight: "0.5", vad: false, language: "de" };
  assert.deepEqual(sent(changed), { nbest: 3, lm_weight: 0.5, vad: false, language: "de" });
  assert.deepEqual(sent({ lm_weight: "0" }), { lm_weight: 0 });
});

test("a number that is the usual default is sent: other options change the default", () => {
  assert.deepEqual(sent({ nbest: "1" }), { nbest: 1 });
});

test("what the accuracy sets has three states", () => {
  const of = (attention_rescore) => sent({ attention_rescore }, "ctc");
  assert.deepEqual(of(""), {});
  assert.deepEqual(of("true"), { attention_rescore: true });
  assert.deepEqual(of("false"), { attention_rescore: false });
});

test("a choice in words tells what is sent", () => {
  assert.equal(inWords("CTC", { model: "conch-ctc" }), "CTC · fast");
  const fields = { model: "conch-ctc", accuracy: "best", beam_size: 5, lm_fusion: false };
  assert.equal(inWords("CTC", fields), "CTC · best · beam_size=5 · lm_fusion=false");
});

test("an emptied field is left to the server", () => {
  assert.deepEqual(sent({ language: " ", nbest: "" }), {});
});

test("an option of other decoders is not sent, except to the first pass of live audio", () => {
  assert.deepEqual(sent({ hotwords: "Conch" }, "attention"), {});
  assert.deepEqual(sent({ hotwords: "Conch" }, undefined), {});
  assert.deepEqual(sent({ hotwords: "Conch" }, "ctc"), { hotwords: "Conch" });
  assert.deepEqual(sent({ hotwords: "Conch" }, "attention", true), { hotwords: "Conch" });
  assert.deepEqual(sent({ attention_rescore: "true" }, "attention", true), {});
  assert.deepEqual(sent({ attention_rescore: "true" }, "wfst", true), { attention_rescore: true });
});

test("recordings and live audio have options of their own", () => {
  const changed = { partials: false, channels: "split" };
  assert.deepEqual(sent(changed), { channels: "split" });
  assert.deepEqual(sent(changed, undefined, true), { partials: false });
});

test("words or a number: both are sent as they are meant", () => {
  assert.deepEqual(sent({ channels: "2" }), { channels: 2 });
  assert.deepEqual(sent({ channels: "split" }), { channels: "split" });
});
