// How a microphone is opened and closed, with a browser that is made up.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { MicrophoneError, openMicrophone } from "../../../src/conch/gateway/page/microphone.js";

const CHOICE = { deviceId: "", echoCancellation: false };
let track, contexts, paused;
const hooks = {
  onFrame: () => {},
  onGone: () => {},
  onPause: (isPaused) => paused.push(isPaused),
};

/** Contexts whose rate is 48 kHz unless one is asked for. */
class Context {
  constructor({ sampleRate = 48000 } = {}) {
    Object.assign(this, { sampleRate, state: "running", resumed: 0 });
    this.audioWorklet = { addModule: async () => {} };
    contexts.push(this);
  }
  createMediaStreamSource() {
    if (this.sampleRate !== track.rate) throw new DOMException("rates", "NotSupportedError");
    return { connect: (node) => ({ connect: () => node }) };
  }
  async resume() {
    this.resumed += 1;
  }
  async close() {
    this.closed = (this.closed ?? 0) + 1;
    this.state = "closed";
  }
}

class Node {
  constructor() {
    this.port = { postMessage: () => this.port.onmessage({ data: "flushed" }) };
  }
}

beforeEach(() => {
  contexts = [];
  paused = [];
  track = {
    rate: 48000,
    readyState: "live",
    stopped: 0,
    stop: () => (track.stopped += 1),
    getSettings: () => ({ sampleRate: track.rate }),
    addEventListener: () => {},
  };
  const stream = { getTracks: () => [track], getAudioTracks: () => [track] };
  const browser = {
    navigator: { mediaDevices: { getUserMedia: async () => stream } },
    AudioContext: Context,
    AudioWorkletNode: Node,
  };
  for (const [name, value] of Object.entries(browser))
    Object.defineProperty(globalThis, name, { value, configurable: true });
});
afterEach(() => {
  for (const name of ["navigator", "AudioContext", "AudioWorkletNode"]) delete globalThis[name];
});

test("a microphone of another rate gets a context of its own rate", async () => {
  track.rate = 44100;
  await openMicrophone(CHOICE, hooks);
  assert.deepEqual(
    contexts.map((one) => [one.sampleRate, one.state]),
    [
      [48000, "closed"],
      [44100, "running"],
    ],
  );
  assert.equal(track.stopped, 0);
});

test("whatever fails, the microphone is off", async () => {
  track.rate = 44100;
  track.getSettings = () => ({});
  await assert.rejects(openMicrophone(CHOICE, hooks), MicrophoneError);
  assert.deepEqual([track.stopped, contexts[0].state], [1, "closed"]);
  track.rate = 48000;
  contexts = [];
  track.readyState = "ended";
  await assert.rejects(openMicrophone(CHOICE, hooks), MicrophoneError);
  assert.deepEqual([track.stopped, contexts[0].state], [2, "closed"]);
});

test("a pause of the browser is told, and one that may be ended is ended", async () => {
  await openMicrophone(CHOICE, hooks);
  const [context] = contexts;
  for (const state of ["interrupted", "running", "suspended"]) {
    context.state = state;
    context.onstatechange();
  }
  assert.deepEqual(paused, [true, false, true]);
  assert.equal(context.resumed, 2);
});

test("it is stopped once, however often it is asked to", async () => {
  const microphone = await openMicrophone(CHOICE, hooks);
  await Promise.all([microphone.stop(), microphone.stop()]);
  assert.deepEqual([track.stopped, contexts[0].closed], [1, 1]);
});
