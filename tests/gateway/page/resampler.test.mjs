// The resampler of the page, against tones whose frequency and level are known.

import assert from "node:assert/strict";
import { test } from "node:test";

import { FrameCutter, levelOf, toPcm16 } from "../../../src/conch/gateway/page/pcm.js";
import { Resampler } from "../../../src/conch/gateway/page/resampler.js";

const OUTPUT_RATE = 16000;
const RATES = [8000, 22050, 24000, 44100, 48000, 96000];

function tone(frequency, rate, seconds = 1, amplitude = 0.5) {
  return Float32Array.from(
    { length: Math.round(rate * seconds) },
    (_, at) => amplitude * Math.sin((2 * Math.PI * frequency * at) / rate),
  );
}

function resampled(samples, rate, sizes = [samples.length]) {
  const resampler = new Resampler(rate, OUTPUT_RATE);
  const parts = [];
  for (let from = 0, turn = 0; from < samples.length; turn++) {
    const size = sizes[turn % sizes.length];
    parts.push(resampler.push(samples.subarray(from, from + size)));
    from += size;
  }
  parts.push(resampler.flush());
  return Float32Array.from(parts.flatMap((part) => [...part]));
}

// Both ends of a tone that begins and ends at once are not a tone.
const middle = (samples) => samples.subarray(samples.length / 4, (samples.length * 3) / 4);

/** Amplitude and phase of one frequency, by correlation with a Hann window. */
function found(samples, frequency, rate = OUTPUT_RATE) {
  let [cosine, sine, weights] = [0, 0, 0];
  samples.forEach((sample, at) => {
    const weight = 0.5 - 0.5 * Math.cos((2 * Math.PI * at) / samples.length);
    const angle = (2 * Math.PI * frequency * at) / rate;
    cosine += weight * sample * Math.cos(angle);
    sine += weight * sample * Math.sin(angle);
    weights += weight;
  });
  return (2 * Math.hypot(cosine, sine)) / weights;
}

const decibels = (ratio) => 20 * Math.log10(ratio);

for (const rate of RATES) {
  test(`${rate} Hz: a tone keeps its frequency and level`, () => {
    for (const frequency of [100, 1000, 3000]) {
      const output = middle(resampled(tone(frequency, rate), rate));
      assert.ok(Math.abs(decibels(found(output, frequency) / 0.5)) < 0.05, `${frequency} Hz`);
      // All of its power is at that frequency: nothing else was added.
      const expected = levelOf(Float32Array.of(0.5 / Math.SQRT2));
      assert.ok(Math.abs(levelOf(output) - expected) < 0.05, `${frequency} Hz`);
      assert.ok(found(output, frequency + 60) < 1e-3, `${frequency} Hz`);
    }
  });

  test(`${rate} Hz: the output is as long as the input, and begins with it`, () => {
    const output = resampled(tone(440, rate, 0.7), rate);
    assert.equal(output.length, Math.ceil((Math.round(rate * 0.7) * OUTPUT_RATE) / rate));
    const expected = tone(440, OUTPUT_RATE, 0.7);
    const differences = output.map((sample, at) => Math.abs(sample - expected[at]));
    assert.ok(Math.max(...middle(differences)) < 2e-3);
  });

  test(`${rate} Hz: chunks give what the whole gives`, () => {
    const samples = tone(700, rate, 0.5).map((sample, at) => sample + 0.3 * Math.sin(at * at));
    const whole = resampled(samples, rate);
    for (const sizes of [[128], [1], [1, 999, 3, 128]]) {
      assert.deepEqual(resampled(samples, rate, sizes), whole, `chunks of ${sizes}`);
    }
  });
}

for (const rate of [44100, 48000, 96000]) {
  test(`${rate} Hz: what lies above 8 kHz does not come back as another tone`, () => {
    for (const frequency of [8100, 9000, 11000, 15000, 17000, 20000]) {
      const output = middle(resampled(tone(frequency, rate), rate));
      assert.ok(levelOf(output) < -65, `${frequency} Hz: ${levelOf(output)} dB`);
    }
  });
}

test("the passband reaches 6.8 kHz", () => {
  const output = middle(resampled(tone(6800, 48000), 48000));
  assert.ok(Math.abs(decibels(found(output, 6800) / 0.5)) < 0.1);
});

test("16 kHz goes through unchanged", () => {
  const samples = tone(1000, OUTPUT_RATE);
  assert.deepEqual(resampled(samples, OUTPUT_RATE, [128]), samples);
});

test("a rate that is not a whole number is refused with what was given", () => {
  assert.throws(() => new Resampler(44100.5, 16000), /44100\.5/);
  assert.throws(() => new Resampler(0, 16000), /got 0/);
});

test("frames have one length, and the rest is kept for the next", () => {
  const cutter = new FrameCutter(4);
  assert.deepEqual(cutter.push(Float32Array.of(1, 2, 3)), []);
  const frames = cutter.push(Float32Array.of(4, 5, 6, 7, 8, 9));
  assert.deepEqual(frames, [Float32Array.of(1, 2, 3, 4), Float32Array.of(5, 6, 7, 8)]);
  assert.deepEqual(cutter.rest(), Float32Array.of(9));
  assert.equal(cutter.rest().length, 0);
});

test("PCM is little-endian and clipped", () => {
  const bytes = new Uint8Array(toPcm16(Float32Array.of(0, 1, -1, 2, 0.5)));
  assert.deepEqual([...bytes], [0, 0, 0xff, 0x7f, 0x01, 0x80, 0xff, 0x7f, 0x00, 0x40]);
});

test("the level is that of the root mean square", () => {
  assert.ok(Math.abs(levelOf(tone(1000, OUTPUT_RATE)) - decibels(0.5 / Math.SQRT2)) < 0.01);
  assert.equal(levelOf(new Float32Array(100)), -100);
});
