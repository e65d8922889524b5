/**
 * Runs in the audio thread: mixes the microphone to mono, resamples it to 16 kHz, and posts frames
 * of 40 ms as s16le with their level. The message "flush" asks for the rest, answered by "flushed".
 */

import { FrameCutter, SAMPLE_RATE, levelOf, toPcm16 } from "./pcm.js";
import { Resampler } from "./resampler.js";

class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.resampler = new Resampler(Math.round(sampleRate), SAMPLE_RATE);
    this.cutter = new FrameCutter();
    this.isOpen = true;
    this.port.onmessage = () => {
      this.isOpen = false;
      this.cutter.push(this.resampler.flush()).forEach((frame) => this.post(frame));
      const rest = this.cutter.rest();
      if (rest.length) this.post(rest);
      this.port.postMessage("flushed");
    };
  }

  /**
   * @param {Float32Array[][]} inputs Channels of each input, 128 samples each.
   * @returns {boolean}
   */
  process(inputs) {
    const channels = inputs[0];
    // Before the microphone gives sound there are no channels.
    if (this.isOpen && channels.length) {
      const mono = this.resampler.push(mixed(channels));
      this.cutter.push(mono).forEach((frame) => this.post(frame));
    }
    return this.isOpen;
  }

  /** @param {Float32Array} frame */
  post(frame) {
    const bytes = toPcm16(frame);
    this.port.postMessage({ bytes, level: levelOf(frame) }, [bytes]);
  }
}

/**
 * @param {Float32Array[]} channels
 * @returns {Float32Array}
 */
function mixed(channels) {
  return channels[0].map(
    (_, at) => channels.reduce((sum, one) => sum + one[at], 0) / channels.length,
  );
}

registerProcessor("conch-capture", Capture);
