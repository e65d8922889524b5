/**
 * Cut words into the cues of subtitles. Rules, costs and sums are those of `conch.wire.subtitles`,
 * which explains them: a download of the page is the file that `conch transcribe` writes.
 */

import { isUnspaced, isWithinSyllable, separator, separators } from "./joining.js";

/**
 * @typedef {{text: string, start: number, end: number, confidence: number}} Word
 * @typedef {{text: string, start: number, end: number, words?: Word[], channel?: number}} Segment
 * @typedef {{text: string, segments: Segment[], channels?: object[]}} Transcript
 * @typedef {{startMs: number, endMs: number, lines: string[]}} Cue
 * @typedef {{space: string, text: string, startMs: number, endMs: number}} Token
 */

const MAX_LINE_CHARS = 42;
const MAX_LINES = 2;
const MIN_CUE_MS = 1000;
const MAX_CUE_MS = 7000;
const MAX_CHARS_PER_S = 17;
const GAP_MS = 83;
const MIN_GAP_MS = 500;
const LONG_PAUSE_MS = 1000;

const CUE = 3;
const FULL = 2;
const SHORT = 60;
const SHORT_PER_S = 40;
const ONE_WORD = 40;
const FAST = 8;
const FAST_PER_SHARE = 30;
const SENTENCE = 0;
const CLAUSE = 2;
const PHRASE = 4;
const WORDS = 7;
const BOUND = 11;
const PAUSE_MS = 600;
const INNER_SENTENCE = 3;
const INNER_PAUSE_MS = 300;
const INNER_PAUSE_PER_S = 20;
const TOP_HEAVY = 0.5;
const UNEVEN = 0.1;

const SENTENCE_END = /[.!?…。！？؟।։]$/u;
const CLAUSE_END = /[,;:—–、，；：،؛]$/u;
const CLOSING = /["')\]}”’»」』）】》]+$/u;
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{1b000}-\u{1b16f}\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
const NO_COLUMN = /[\p{Mn}\p{Me}\p{Cf}]/u;
const OPENING = /[\p{Ps}\p{Pi}]/u;
const LETTER = /[\p{L}\p{N}]/u;
const TITLES = ["mr.", "mrs.", "ms.", "dr.", "st.", "prof."];
const BEGIN_PHRASES = new Set(
  `and but or nor so yet because although though while if unless until when whenever where whereas that
    which who whom whose as than then after before since about above across against along among around
    at behind below beneath beside between beyond by despite during for from in inside into like near of
    off on onto out over through to toward towards under upon with within without
    und oder aber denn sondern weil dass wenn ob obwohl damit während bevor nachdem als wie mit von zu
    bei nach aus für gegen ohne durch über unter vor hinter neben zwischen
    et ou mais donc car que qui dont où quand lorsque parce puisque si comme avec sans pour par dans sur
    sous chez vers entre depuis pendant avant après de
    y e o u pero sino porque cuando donde aunque mientras como con sin para por hasta sobre según`.split(/\s+/u),
);
const NEED_THE_NEXT = new Set(
  `a an the this these those my your his her its our their no every each some any of to in on at for
    from with by and or but very not mr. mrs. ms. dr. st. prof.
    der die das den dem des ein eine einen einem einer mein dein sein ihr unser und oder
    le la les un une du de mon ma mes ton ta tes son sa ses et ou
    el los las una unos unas mi tu su y o`.split(/\s+/u),
);

/**
 * Return subtitle cues in order of time. None is empty, and those of a channel do not overlap.
 * @param {Transcript} transcript
 * @returns {Cue[]}
 */
export function cuesOf(transcript) {
  const isSplit = (transcript.channels?.length ?? 0) > 1;
  const channels = [...new Set(transcript.segments.map((segment) => segment.channel ?? 0))];
  const cues = channels
    .sort((one, other) => one - other)
    .flatMap((channel) => {
      const segments = transcript.segments.filter((one) => (one.channel ?? 0) === channel);
      return channelCues(tokensOf(segments), isSplit ? `[${channel}] ` : "");
    });
  return cues.sort((one, other) => one.startMs - other.startMs);
}

/**
 * @param {Token[]} tokens
 * @param {string} label
 * @returns {Cue[]}
 */
function channelCues(tokens, label) {
  const cues = [];
  let first = 0;
  for (let place = 1; place <= tokens.length; place++) {
    const next = tokens[place];
    if (next && next.startMs - tokens[place - 1].endMs <= LONG_PAUSE_MS) continue;
    cues.push(...new Block(tokens.slice(first, place), next?.startMs ?? Infinity, label).cues());
    first = place;
  }
  return cues;
}

/** Words without a long pause between them. */
class Block {
  /**
   * @param {Token[]} tokens
   * @param {number} nextMs Start of the word after them, infinity without one.
   * @param {string} label What each cue begins with.
   */
  constructor(tokens, nextMs, label) {
    this.tokens = tokens;
    this.label = label;
    this.labelWidth = columns(label);
    this.starts = [...tokens.map((token) => token.startMs), nextMs];
    this.spaces = tokens.map((token) => columns(token.space));
    /** Columns up to each word, with the spaces. */
    this.widths = [0];
    /** Cost of what a cue goes on over, up to each word. */
    this.inner = [0];
    /** Cost of the end of a cue after each word. */
    this.ends = /** @type {number[]} */ ([]);
    tokens.forEach((token, at) => {
      this.widths.push(this.widths[at] + this.spaces[at] + columns(token.text));
      if (!at) return;
      this.ends.push(breakCost(tokens[at - 1], token));
      this.inner.push(this.inner[at - 1] + innerCost(tokens[at - 1], token));
    });
    this.ends.push(0);
  }

  /** @returns {Cue[]} The cues that cost least in all. */
  cues() {
    const best = [0];
    const begins = [0];
    for (let end = 1; end <= this.tokens.length; end++) {
      let least = Infinity;
      let begin = end - 1;
      for (let start = end - 1; start >= 0 && this.fits(start, end); start--) {
        const cost = best[start] + this.cost(start, end);
        if (cost < least) [least, begin] = [cost, start];
      }
      best.push(least);
      begins.push(begin);
    }
    const cues = [];
    for (let end = this.tokens.length; end; end = begins[end]) cues.push(this.cue(begins[end], end));
    return cues.reverse();
  }

  /**
   * @param {number} start
   * @param {number} end
   * @returns {number}
   */
  width(start, end) {
    return this.widths[end] - this.widths[start] - this.spaces[start];
  }

  /**
   * @param {number} start
   * @param {number} end
   * @returns {boolean}
   */
  fits(start, end) {
    if (end - start === 1) return true;
    if (this.tokens[end - 1].endMs - this.tokens[start].startMs > MAX_CUE_MS) return false;
    const room = MAX_LINE_CHARS - this.labelWidth;
    if (this.width(start, end) <= room) return true;
    let second = start;
    while (second < end && this.width(start, second + 1) <= room) second++;
    return second > start && this.width(second, end) <= MAX_LINE_CHARS;
  }

  /**
   * @param {number} start
   * @param {number} end
   * @returns {number}
   */
  cost(start, end) {
    const width = this.labelWidth + this.width(start, end);
    const shownMs = this.endMs(start, end) - this.tokens[start].startMs;
    const share = width / (MAX_LINES * MAX_LINE_CHARS);
    let cost = CUE + FULL * (share * share);
    if (end - start === 1) cost += ONE_WORD;
    if (shownMs < MIN_CUE_MS) cost += SHORT + (SHORT_PER_S * (MIN_CUE_MS - shownMs)) / 1000;
    if (width * 1000 > MAX_CHARS_PER_S * shownMs) {
      const speed = (width * 1000) / (MAX_CHARS_PER_S * shownMs);
      cost += FAST + FAST_PER_SHARE * (Math.min(speed, 3) - 1);
    }
    return cost + (this.inner[end - 1] - this.inner[start]) + this.ends[end - 1];
  }

  /**
   * @param {number} start
   * @param {number} end
   * @returns {number}
   */
  endMs(start, end) {
    const startMs = this.tokens[start].startMs;
    const nextMs = this.starts[end];
    const gap = nextMs - startMs > 2 * GAP_MS ? GAP_MS : 0;
    const latest = Math.min(startMs + MAX_CUE_MS, nextMs - gap);
    const width = this.labelWidth + this.width(start, end);
    const readingMs = Math.ceil((width * 1000) / MAX_CHARS_PER_S);
    const saidMs = Math.max(this.tokens[end - 1].endMs, startMs + 1);
    const wanted = Math.max(saidMs, startMs + Math.max(MIN_CUE_MS, readingMs));
    const endMs = Math.min(wanted, latest);
    return nextMs - endMs < MIN_GAP_MS ? latest : endMs;
  }

  /**
   * @param {number} start
   * @param {number} end
   * @returns {Cue}
   */
  cue(start, end) {
    const second = this.secondLine(start, end);
    const lines = second ? [this.shown(start, second), this.shown(second, end)] : [];
    const [first, ...rest] = second ? lines : [this.shown(start, end)];
    return {
      startMs: this.tokens[start].startMs,
      endMs: this.endMs(start, end),
      lines: [this.label + first, ...rest],
    };
  }

  /**
   * @param {number} start
   * @param {number} end
   * @returns {string}
   */
  shown(start, end) {
    const tokens = this.tokens.slice(start, end);
    return tokens.map((token, at) => (at ? token.space : "") + token.text).join("");
  }

  /**
   * Return the first word of the second line; 0 if there is one line.
   * @param {number} start
   * @param {number} end
   * @returns {number}
   */
  secondLine(start, end) {
    const room = MAX_LINE_CHARS - this.labelWidth;
    if (this.width(start, end) <= room) return 0;
    let least = Infinity;
    let best = 0;
    for (let second = start + 1; second < end; second++) {
      const first = this.width(start, second);
      const rest = this.width(second, end);
      if (first > room || rest > MAX_LINE_CHARS) continue;
      const top = first + this.labelWidth;
      const uneven = UNEVEN * Math.abs(top - rest);
      const cost = this.ends[second - 1] + uneven + (top > rest ? TOP_HEAVY : 0);
      if (cost < least) [least, best] = [cost, second];
    }
    return best;
  }
}

/**
 * @param {Token} token
 * @param {Token} after
 * @returns {number}
 */
function breakCost(token, after) {
  const word = token.text.toLowerCase();
  const bare = word.replace(CLOSING, "");
  let cost = BEGIN_PHRASES.has(after.text.toLowerCase()) ? PHRASE : WORDS;
  if (TITLES.includes(bare)) cost = BOUND;
  else if (SENTENCE_END.test(bare)) cost = SENTENCE;
  else if (CLAUSE_END.test(bare)) cost = CLAUSE;
  else if (NEED_THE_NEXT.has(word)) cost = BOUND;
  const pauseMs = Math.min(after.startMs - token.endMs, PAUSE_MS);
  return cost * (1 - pauseMs / PAUSE_MS);
}

/**
 * @param {Token} token
 * @param {Token} after
 * @returns {number}
 */
function innerCost(token, after) {
  const pauseMs = after.startMs - token.endMs - INNER_PAUSE_MS;
  const cost = pauseMs > 0 ? (INNER_PAUSE_PER_S * pauseMs) / 1000 : 0;
  return cost + (breakCost(token, after) === 0 ? INNER_SENTENCE : 0);
}

/**
 * Return the words of one channel, with starts that rise by a millisecond at least.
 * @param {Segment[]} segments
 * @returns {Token[]}
 */
function tokensOf(segments) {
  /** @type {Token[]} */
  const tokens = [];
  let said = "";
  for (const segment of segments) {
    const timed = timedOf(segment);
    const spaces = separators(
      segment.text,
      timed.map((one) => one.text),
    );
    timed.forEach(({ text, start, end }, place) => {
      const before = tokens.at(-1);
      const startMs = Math.max(milliseconds(start), before ? before.startMs + 1 : 0);
      if (before) before.endMs = Math.min(before.endMs, startMs);
      const space = place ? spaces[place] : separator(said, text);
      tokens.push({ space, text, startMs, endMs: Math.max(milliseconds(end), startMs) });
      said = text;
    });
  }
  return tokens;
}

/**
 * @param {Segment} segment
 * @returns {{text: string, start: number, end: number}[]}
 */
function timedOf(segment) {
  const words = (segment.words ?? [])
    .map(({ text, start, end }) => ({ text: text.trim(), start, end }))
    .filter((word) => word.text);
  if (words.length) return words;
  const texts = piecesOf(segment.text);
  const ends = [0];
  for (const text of texts) ends.push(ends[ends.length - 1] + columns(text));
  const scale = (segment.end - segment.start) / Math.max(1, ends[texts.length]);
  return texts.map((text, at) => ({
    text,
    start: segment.start + ends[at] * scale,
    end: segment.start + ends[at + 1] * scale,
  }));
}

/**
 * Return the words of a text. In scripts without spaces each letter is one.
 * @param {string} text
 * @returns {string[]}
 */
function piecesOf(text) {
  /** @type {string[]} */
  const pieces = [];
  for (const word of text.split(/\s+/u).filter(Boolean)) {
    let isOpen = false;
    for (const letter of lettersOf(word)) {
      const isWord = isUnspaced([...letter]);
      if (isOpen && !isWord) pieces[pieces.length - 1] += letter;
      else pieces.push(letter);
      isOpen = !isWord;
    }
  }
  return pieces;
}

/**
 * @param {string} word
 * @returns {string[]}
 */
function lettersOf(word) {
  /** @type {string[]} */
  const letters = [];
  let isOpen = false;
  let before = "";
  for (const char of word) {
    const opens = OPENING.test(char);
    const isMark = !opens && !LETTER.test(char);
    if (letters.length && (isOpen || isMark || isWithinSyllable(before, char))) {
      letters[letters.length - 1] += char;
    } else letters.push(char);
    isOpen = opens || (isOpen && isMark);
    before = char;
  }
  return letters;
}

/**
 * @param {string} text
 * @returns {number}
 */
function columns(text) {
  let sum = 0;
  for (const char of text) if (!NO_COLUMN.test(char)) sum += WIDE.test(char) ? 2 : 1;
  return sum;
}

/**
 * @param {number} seconds
 * @returns {number}
 */
function milliseconds(seconds) {
  return Math.max(0, Math.floor(seconds * 1000 + 0.5));
}
