/**
 * Change the sample rate of mono audio that comes in chunks of any length.
 *
 * A polyphase filter: for the ratio L / M, output n lies at input n * M / L, between two samples
 * by one of L fractions. Each fraction has its own windowed sinc (J. O. Smith, "Digital Audio
 * Resampling", 2002). The state goes from chunk to chunk, so the cuts are not heard.
 */

/** Zero crossings of the sinc on each side: the passband then ends at 86 % of the lower Nyquist. */
const ZERO_CROSSINGS = 32;
/** Middle of the transition band, in parts of the lower Nyquist frequency; its end is at 1. */
const CUTOFF = 0.9325;
/** Kaiser's beta for 70 dB of stopband attenuation. */
const BETA = 6.76;

export class Resampler {
  /**
   * @param {number} inputRate Samples per second that come in, a whole number.
   * @param {number} outputRate Samples per second that go out, a whole number.
   * @throws {RangeError} A rate is not a whole number above 0.
   */
  constructor(inputRate, outputRate) {
    for (const rate of [inputRate, outputRate]) {
      if (!Number.isInteger(rate) || rate <= 0) {
        throw new RangeError(`a sample rate is a whole number above 0; got ${rate}`);
      }
    }
    const divisor = greatestCommonDivisor(inputRate, outputRate);
    this.phases = outputRate / divisor;
    this.step = inputRate / divisor;
    this.isPassed = inputRate === outputRate;
    this.scale = Math.min(1, outputRate / inputRate) * CUTOFF;
    this.half = Math.ceil(ZERO_CROSSINGS / Math.min(1, outputRate / inputRate));
    /** @type {Map<number, Float32Array>} Filters by phase; those of odd rates are many. */
    this.filters = new Map();
    // The filter reaches `half` samples back: before the audio there is silence.
    this.kept = new Float32Array(this.half);
    this.keptFrom = -this.half;
    this.base = 0;
    this.phase = 0;
    this.taken = 0;
  }

  /**
   * Return the samples that are complete with this chunk; the last ones wait for what follows.
   * @param {Float32Array} chunk
   * @returns {Float32Array}
   */
  push(chunk) {
    if (this.isPassed) return chunk.slice();
    this.taken += chunk.length;
    return this.resample(chunk);
  }

  /**
   * Return the last samples, as if silence followed. The resampler takes no more audio then.
   * @returns {Float32Array}
   */
  flush() {
    return this.isPassed ? new Float32Array() : this.resample(new Float32Array(this.half + 1));
  }

  /**
   * @param {Float32Array} chunk
   * @returns {Float32Array}
   */
  resample(chunk) {
    const input = new Float32Array(this.kept.length + chunk.length);
    input.set(this.kept);
    input.set(chunk, this.kept.length);
    const end = this.keptFrom + input.length;
    const room = Math.ceil((chunk.length * this.phases) / this.step) + this.phases;
    const output = new Float32Array(room);
    let made = 0;
    // Nothing comes after the audio itself: flush ends with the last sample.
    while (this.base + this.half < end && this.base < this.taken) {
      const filter = this.filterOf(this.phase);
      const first = this.base - this.half + 1 - this.keptFrom;
      let sum = 0;
      for (let tap = 0; tap < filter.length; tap++) sum += filter[tap] * input[first + tap];
      output[made++] = sum;
      this.phase += this.step;
      this.base += Math.floor(this.phase / this.phases);
      this.phase %= this.phases;
    }
    const needed = Math.max(this.base - this.half + 1, this.keptFrom);
    this.kept = input.slice(Math.min(needed, end) - this.keptFrom);
    this.keptFrom = Math.min(needed, end);
    return output.slice(0, made);
  }

  /**
   * Return the taps for outputs that lie `phase / phases` after an input sample.
   * @param {number} phase
   * @returns {Float32Array}
   */
  filterOf(phase) {
    let filter = this.filters.get(phase);
    if (!filter) {
      filter = new Float32Array(2 * this.half);
      const fraction = phase / this.phases;
      let sum = 0;
      for (let tap = 0; tap < filter.length; tap++) {
        const distance = tap - this.half + 1 - fraction;
        filter[tap] = sinc(distance * this.scale) * kaiser(distance / this.half);
        sum += filter[tap];
      }
      // Each phase passes a constant unchanged; else they would differ, which is heard as a tone.
      for (let tap = 0; tap < filter.length; tap++) filter[tap] /= sum;
      this.filters.set(phase, filter);
    }
    return filter;
  }
}

/**
 * @param {number} a
 * @param {number} b
 * @returns {number}
 */
function greatestCommonDivisor(a, b) {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

/**
 * @param {number} x
 * @returns {number}
 */
function sinc(x) {
  return x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
}

/**
 * Return Kaiser's window.
 * @param {number} x Place in the window, from -1 to 1.
 * @returns {number}
 */
function kaiser(x) {
  return Math.abs(x) > 1 ? 0 : bessel(BETA * Math.sqrt(1 - x * x)) / bessel(BETA);
}

/**
 * Return the modified Bessel function of the first kind, order 0, by its power series.
 * @param {number} x
 * @returns {number}
 */
function bessel(x) {
  let term = 1;
  let sum = 1;
  for (let k = 1; term > 1e-10 * sum; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}
