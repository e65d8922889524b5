/** When each piece of audio sounds, on the clock of an AudioContext. */

/** Seconds between the arrival of a piece that comes late, or first, and its sound. */
const DELAY_S = 0.05;

export class Schedule {
  constructor() {
    /** @type {{at: number, from: number}[]} Where audio goes on without a gap: clock, and place. */
    this.runs = [];
    /** Seconds of audio so far. */
    this.length = 0;
  }

  /** Clock at which all audio so far has sounded. */
  get end() {
    const run = this.runs.at(-1);
    return run ? run.at + this.length - run.from : 0;
  }

  /**
   * Add a piece.
   * @param {number} seconds
   * @param {number} now
   * @returns {number} When it has to start: right behind the one before, unless that is over.
   */
  add(seconds, now) {
    let at = this.end;
    if (!this.runs.length || at < now) {
      at = now + DELAY_S;
      this.runs.push({ at, from: this.length });
    }
    this.length += seconds;
    return at;
  }

  /**
   * Return the place in the audio that sounds.
   * @param {number} now
   * @returns {number} Seconds; below 0 before the first.
   */
  placeAt(now) {
    const number = this.runs.findLastIndex(({ at }) => at <= now);
    if (number < 0) return -1;
    const { at, from } = this.runs[number];
    return Math.min(this.runs[number + 1]?.from ?? this.length, from + now - at);
  }
}
