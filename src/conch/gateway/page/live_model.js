/** What the messages of live sessions say so far: utterances, and how late the text is. */

import { speakerOf } from "./live_runs.js";

/**
 * @typedef {{text: string, start: number, end: number, confidence: number, speaker?: string}} Word
 * @typedef {{index: number, start: number, end: number, firm: string, tentative: string,
 *   newest: string, isOpen: boolean, isFinal: boolean, endpoint: string, words: Word[]}} Utterance
 */

/** Letters of the server. Names are of known speakers. */
const LETTERS = /^[A-Z]{1,2}\d*$/;

export class LiveModel {
  constructor() {
    /** @type {Map<number, Utterance>} By their number. */
    this.utterances = new Map();
    this.audioS = 0;
    /** Where the session begins: seconds of audio and utterances of those before it. */
    this.startS = 0;
    this.firstIndex = 0;
    this.numSessions = 0;
    /** @type {Map<string, number>} Seconds of words by speaker. */
    this.seconds = new Map();
    /** @type {number | null} Seconds of audio that were sent and not recognised. */
    this.lag = null;
    /** @type {number | null} Seconds of audio from the first sight of a word until it is firm. */
    this.firmLag = null;
    /** @type {Map<number, {shownAt: number[], firm: number}>} */
    this.seen = new Map();
  }

  /** Begin another session: its text comes after all earlier text. */
  begin() {
    const utterances = [...this.utterances.values()];
    this.goOn(utterances.reduce((latest, one) => Math.max(latest, one.end), this.audioS));
  }

  /** @param {number} startS Where another session begins, in seconds of the first. */
  goOn(startS) {
    this.startS = this.audioS = startS;
    this.firstIndex = [...this.utterances.keys()].reduce((next, one) => Math.max(next, one + 1), 0);
    this.numSessions += 1;
    this.lag = this.firmLag = null;
    this.seen.clear();
  }

  /**
   * Continue in another session after the firm words; the rest is sent again.
   * @param {object} place
   * @param {number} place.startS Where it begins, in seconds of the present session.
   * @param {number} place.toldS End of the words already sent.
   * @returns {Utterance[]} The utterances that it changed.
   */
  resume({ startS, toldS }) {
    const changed = [...this.utterances.values()]
      .filter((one) => one.index >= this.firstIndex && !one.isFinal)
      .sort((one, other) => one.index - other.index)
      .map((one, place) => {
        const firm = place === 0 ? one.firm : "";
        const words = wordsOf(firm, one.words);
        const end = firm ? Math.max(one.start, this.startS + toldS) : one.start;
        const states = { isOpen: false, isFinal: true, endpoint: "lost" };
        return this.put({ ...one, firm, tentative: "", newest: "", end, words, ...states });
      });
    this.goOn(this.startS + startS);
    return changed;
  }

  /**
   * End the session: the open text stays as it is.
   * @returns {Utterance[]} The utterances that it changed.
   */
  finish() {
    return [...this.utterances.values()]
      .filter((one) => one.isOpen)
      .map((one) => {
        const tentative = `${one.tentative}${one.newest}`;
        return this.put({ ...one, tentative, newest: "", isOpen: false });
      });
  }

  /**
   * Take a message of the server.
   * @param {Record<string, any>} message
   * @param {number} sentS Seconds of audio that the session was sent before it came.
   * @returns {Utterance | null} The utterance that it changed.
   */
  take(message, sentS) {
    const sent = this.startS + sentS;
    if (typeof message.audio_s === "number") {
      this.audioS = this.startS + message.audio_s;
      this.lag = Math.max(0, sent - this.audioS);
    }
    if (message.type === "text") return this.spoken(this.placed(message), sent);
    return message.type === "segment" ? this.ended(this.placed(message), sent) : null;
  }

  /**
   * Return a message with its number and times after those of the sessions before.
   * @param {Record<string, any>} message
   * @returns {Record<string, any>}
   */
  placed(message) {
    const words = message.words && { words: message.words.map((word) => this.later(word)) };
    return { ...this.later(message), index: message.index + this.firstIndex, ...words };
  }

  /**
   * Return what was said after the sessions before: A of the second is A.2, as it may be another.
   * @param {any} timed
   * @returns {any}
   */
  later({ start, end, speaker, ...rest }) {
    const isOther = this.numSessions > 1 && LETTERS.test(speaker ?? "");
    return {
      ...rest,
      start: start + this.startS,
      ...(end !== undefined && { end: end + this.startS }),
      ...(speaker && { speaker: isOther ? `${speaker}.${this.numSessions}` : speaker }),
    };
  }

  /**
   * Take who has spoken where, as the end of a session says.
   * @param {{speaker: string, start: number, end: number}[]} turns
   * @returns {Utterance[]} The utterances that it changed.
   */
  relabel(turns) {
    const later = turns.map((turn) => this.later(turn));
    const relabelled = (word) => {
      const middle = (word.start + word.end) / 2;
      const turn = later.find(({ start, end }) => start <= middle && middle < end);
      return turn && turn.speaker !== word.speaker ? { ...word, speaker: turn.speaker } : word;
    };
    return [...this.utterances.values()].flatMap((one) => {
      const words = one.words.map(relabelled);
      return words.some((word, at) => word !== one.words[at]) ? [this.put({ ...one, words })] : [];
    });
  }

  /** @returns {{name: string, seconds: number}[]} Who has spoken, and for how long. */
  get speakers() {
    return [...this.seconds]
      .filter(([, seconds]) => seconds > 0.005)
      .map(([name, seconds]) => ({ name, seconds }));
  }

  /**
   * @param {Record<string, any>} message
   * @param {number} sentS
   * @returns {Utterance | null}
   */
  spoken(message, sentS) {
    // A late message does not open an ended utterance again.
    if (this.utterances.get(message.index)?.isOpen === false) return null;
    const { index, start, firm = "", tentative = "", newest = "", words = [] } = message;
    const text = message.text ?? joinedText([firm, tentative, newest]);
    const texts = partsOf(text, firm, newest);
    const states = { isOpen: true, isFinal: false, endpoint: "", words };
    this.note(index, count(`${firm} ${tentative} ${newest}`), count(firm), sentS);
    return this.put({ index, start, end: start, ...texts, ...states });
  }

  /**
   * @param {Record<string, any>} message
   * @param {number} sentS
   * @returns {Utterance}
   */
  ended(message, sentS) {
    const { index, start, end, text, final, endpoint = "", words = [] } = message;
    if (final) {
      this.note(index, count(text), count(text), sentS);
      this.seen.delete(index);
    }
    // Until the second pass has heard all of it, only the firm words stay.
    const texts = partsOf(text, final ? text : (this.utterances.get(index)?.firm ?? ""), "");
    return this.put({
      index,
      start,
      end,
      ...texts,
      isOpen: false,
      isFinal: final,
      endpoint,
      words,
    });
  }

  /**
   * @param {Utterance} utterance
   * @returns {Utterance}
   */
  put(utterance) {
    const before = this.utterances.get(utterance.index)?.words ?? [];
    /** @param {Word[]} words */
    const add = (words, sign) =>
      words
        .filter(({ speaker }) => speaker)
        .forEach(({ speaker, start, end }) =>
          this.seconds.set(speaker, (this.seconds.get(speaker) ?? 0) + sign * (end - start)),
        );
    add(before, -1);
    add(utterance.words, 1);
    this.utterances.set(utterance.index, utterance);
    return utterance;
  }

  /**
   * Keep when each word was first shown, by its place, and how long the latest firm one took.
   * @param {number} index
   * @param {number} shown Words of the utterance.
   * @param {number} firm Words of it that are firm.
   * @param {number} sentS
   */
  note(index, shown, firm, sentS) {
    const seen = this.seen.get(index) ?? { shownAt: [], firm: 0 };
    seen.shownAt.length = Math.min(seen.shownAt.length, shown);
    while (seen.shownAt.length < shown) seen.shownAt.push(this.audioS);
    if (firm > seen.firm) this.firmLag = Math.max(0, sentS - seen.shownAt[firm - 1]);
    seen.firm = Math.max(seen.firm, firm);
    this.seen.set(index, seen);
  }

  /**
   * Return all that was said as a transcript, to download. Its text is left to the server, which
   * knows how each script joins its words.
   * @returns {{duration: number, segments: object[]}}
   */
  transcript() {
    const ordered = [...this.utterances.values()].sort((one, other) => one.index - other.index);
    const segments = ordered
      .map(({ index, start, end, endpoint, words, firm, tentative, newest }) => {
        const text = `${firm}${tentative}${newest}`.trim();
        const speaker = speakerOf(words);
        const said = { index, start, end: Math.max(start, end), text, endpoint, words };
        return speaker ? { ...said, speaker } : said;
      })
      .filter((segment) => segment.text);
    return { duration: this.audioS, segments };
  }
}

/**
 * Cut the text into its parts, with the spaces between them: not every script has some.
 * @param {string} text
 * @param {string} firm How it begins.
 * @param {string} newest How it ends.
 * @returns {{firm: string, tentative: string, newest: string}}
 */
function partsOf(text, firm, newest) {
  const begins = text.startsWith(firm) ? firm.length : 0;
  const ends = text.endsWith(newest) ? Math.max(begins, text.length - newest.length) : text.length;
  return {
    firm: text.slice(0, begins),
    tentative: text.slice(begins, ends),
    newest: text.slice(ends),
  };
}

/**
 * Return the words that a text begins with if they are all of it, else none: subtitles, which take
 * words for the whole text, then share its time among its letters.
 * @param {string} text
 * @param {Word[]} words
 * @returns {Word[]}
 */
function wordsOf(text, words) {
  let rest = text.trim();
  let number = 0;
  while (rest && number < words.length) {
    const word = words[number].text.trim();
    if (!rest.startsWith(word)) return [];
    rest = rest.slice(word.length).trimStart();
    number += 1;
  }
  return rest ? [] : words.slice(0, number);
}

/**
 * @param {string} text
 * @returns {number}
 */
function count(text) {
  return text.split(/\s+/u).filter(Boolean).length;
}

/**
 * What to do with audio that the network has not taken yet: send it, send it and tell, or drop it.
 * @param {number} waitingS Seconds of audio in the socket's buffer.
 * @returns {"fine" | "late" | "drop"}
 */
export function pressureOf(waitingS) {
  if (waitingS > 8) return "drop";
  return waitingS > 1 ? "late" : "fine";
}

/**
 * Return what to say of a session that has come to its end.
 * @param {import("./listen_session.js").Ending} ending
 * @param {object} session
 * @param {string} session.problem An earlier problem, or nothing.
 * @param {boolean} session.wasOn Nobody had asked for the end.
 * @param {number} session.droppedS Seconds of audio that the network did not take.
 * @param {number} [session.relabelled] Passages whose speaker is another at the end.
 * @returns {{text: string, isProblem: boolean}}
 */
export function told({ reason, message }, { problem, wasOn, droppedS, relabelled = 0 }) {
  const end = problem || (wasOn ? "The server ended the session." : "Ended.");
  const lost = `The network was too slow: ${droppedS.toFixed(1)} s of audio were left out.`;
  const others = `Labelled again: ${relabelled} with another speaker.`;
  const more = `${droppedS ? ` ${lost}` : ""}${relabelled ? ` ${others}` : ""}`;
  return {
    text: `${reason === "end" ? end : message}${more}`,
    isProblem: reason !== "end" || Boolean(problem) || wasOn || droppedS > 0,
  };
}
