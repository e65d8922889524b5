/** Cut samples into frames, and write frames as 16-bit PCM. */

export const SAMPLE_RATE = 16000;
/** 40 ms: rare enough for the socket, short against the server's step of 640 ms. */
export const FRAME_SAMPLES = 640;
export const BYTES_PER_SECOND = SAMPLE_RATE * 2;

/** Gathers chunks of any length into frames of one length. */
export class FrameCutter {
  /** @param {number} [length] Samples of a frame. */
  constructor(length = FRAME_SAMPLES) {
    this.frame = new Float32Array(length);
    this.filled = 0;
  }

  /**
   * Return the frames that a chunk completes.
   * @param {Float32Array} chunk
   * @returns {Float32Array[]}
   */
  push(chunk) {
    const frames = [];
    for (let from = 0; from < chunk.length;) {
      const part = chunk.subarray(from, from + this.frame.length - this.filled);
      this.frame.set(part, this.filled);
      this.filled += part.length;
      from += part.length;
      if (this.filled === this.frame.length) {
        frames.push(this.frame.slice());
        this.filled = 0;
      }
    }
    return frames;
  }

  /**
   * Return what no frame has, and forget it.
   * @returns {Float32Array}
   */
  rest() {
    const rest = this.frame.slice(0, this.filled);
    this.filled = 0;
    return rest;
  }
}

/**
 * Return the bytes of samples as s16le. Samples beyond [-1, 1] are clipped.
 * @param {Float32Array} samples
 * @returns {ArrayBuffer}
 */
export function toPcm16(samples) {
  const view = new DataView(new ArrayBuffer(samples.length * 2));
  samples.forEach((sample, place) => {
    const clipped = Math.max(-1, Math.min(1, sample));
    view.setInt16(place * 2, Math.round(clipped * 32767), true);
  });
  return view.buffer;
}

/**
 * Return frames of s16le as a WAV file.
 * @param {ArrayBuffer[]} frames
 * @param {string} name
 * @returns {File}
 */
export function toWav(frames, name) {
  const length = frames.reduce((sum, frame) => sum + frame.byteLength, 0);
  // Browsers run on little-endian machines, whose numbers stand as in the file.
  const head = ["RIFF", Uint32Array.of(36 + length), "WAVEfmt ", Uint32Array.of(16)];
  const rates = Uint32Array.of(SAMPLE_RATE, BYTES_PER_SECOND);
  const format = [Uint16Array.of(1, 1), rates, Uint16Array.of(2, 16)];
  const data = ["data", Uint32Array.of(length), ...frames];
  return new File([...head, ...format, ...data], name, { type: "audio/wav" });
}

/**
 * Return the level of samples in decibels below full scale, at least -100.
 * @param {Float32Array} samples
 * @returns {number}
 */
export function levelOf(samples) {
  let power = 0;
  for (const sample of samples) power += sample * sample;
  return Math.max(-100, 10 * Math.log10(power / Math.max(1, samples.length)));
}
