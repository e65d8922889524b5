/**
 * Write a transcript as text, SubRip, WebVTT or JSON, by the rules of `conch.wire.formats`: a
 * download of the page is the file that `conch transcribe` writes.
 */

/**
 * @typedef {{text: string, start: number, end: number, confidence: number}} Word
 * @typedef {{text: string, start: number, end: number, words?: Word[], channel?: number}} Segment
 * @typedef {{text: string, segments: Segment[], channels?: object[]}} Transcript
 * @typedef {{startMs: number, endMs: number, lines: string[]}} Cue
 */

const MAX_LINE_CHARS = 42;
const MAX_LINES = 2;
const MAX_CUE_S = 7;
const MAX_PAUSE_S = 0.5;
const MIN_SENTENCE_S = 1;
const SENTENCE_END = /[.!?…]["')\]”’]*$/u;
const CLAUSE_END = /[.!?…,;:—]$/u;

/** The formats by the ending of their files. */
export const FORMATS = {
  txt: { write: toTxt, type: "text/plain" },
  srt: { write: toSrt, type: "application/x-subrip" },
  vtt: { write: toVtt, type: "text/vtt" },
  json: { write: toJson, type: "application/json" },
};

/**
 * Return the text as one line, or as one line per turn if the channels are split.
 * @param {Transcript} transcript
 * @returns {string}
 */
export function toTxt(transcript) {
  if (!isSplit(transcript)) return `${transcript.text}\n`;
  const turns = [];
  for (const segment of transcript.segments.filter((one) => one.text)) {
    const last = turns.at(-1);
    if (last?.channel === segment.channel) last.texts.push(segment.text);
    else turns.push({ channel: segment.channel, texts: [segment.text] });
  }
  return turns.map((turn) => `[${turn.channel}] ${turn.texts.join(" ")}\n`).join("");
}

/**
 * @param {Transcript} transcript
 * @returns {string}
 */
export function toSrt(transcript) {
  // A player would read a line with an arrow as a line of times.
  return cuesOf(transcript)
    .map(
      (cue, place) =>
        `${place + 1}\n${timeOf(cue.startMs, ",")} --> ${timeOf(cue.endMs, ",")}\n` +
        cue.lines.map((line) => `${line.replaceAll("-->", "->")}\n`).join("") +
        "\n",
    )
    .join("");
}

/**
 * @param {Transcript} transcript
 * @returns {string}
 */
export function toVtt(transcript) {
  const cues = cuesOf(transcript).map(
    (cue) =>
      `${timeOf(cue.startMs, ".")} --> ${timeOf(cue.endMs, ".")}\n` +
      cue.lines.map((line) => `${escaped(line)}\n`).join("") +
      "\n",
  );
  return `WEBVTT\n\n${cues.join("")}`;
}

/**
 * @param {Transcript} transcript
 * @returns {string}
 */
export function toJson(transcript) {
  return `${JSON.stringify(transcript, null, 2)}\n`;
}

/**
 * Return subtitle cues in order of time. None is empty, and those of a channel do not overlap.
 * @param {Transcript} transcript
 * @returns {Cue[]}
 */
export function cuesOf(transcript) {
  const cues = [];
  const ends = new Map();
  for (const segment of transcript.segments) {
    const label = isSplit(transcript) ? `[${segment.channel}] ` : "";
    for (const span of spansOf(segment, label)) {
      // Each word is timed by itself, so that times may overlap a little.
      const startMs = Math.max(Math.round(span.start * 1000), ends.get(segment.channel) ?? 0);
      const endMs = Math.max(Math.round(span.end * 1000), startMs + 1);
      ends.set(segment.channel, endMs);
      cues.push({ startMs, endMs, lines: span.lines });
    }
  }
  return cues.sort((one, other) => one.startMs - other.startMs);
}

/**
 * @param {Transcript} transcript
 * @returns {boolean}
 */
function isSplit(transcript) {
  return (transcript.channels?.length ?? 0) > 1;
}

/**
 * @param {Segment} segment
 * @param {string} label
 * @returns {{start: number, end: number, lines: string[]}[]}
 */
function spansOf(segment, label) {
  const words = (segment.words ?? []).filter((word) => word.text.trim());
  if (words.length) {
    return groupsOf(words, label).map((group) => ({
      start: group[0].start,
      end: Math.min(endOf(group), group[0].start + MAX_CUE_S),
      lines: wrapped(group, label),
    }));
  }
  if (!segment.text.trim()) return [];
  return [{ start: segment.start, end: segment.end, lines: linesOf(label + segment.text) }];
}

/**
 * Return the groups of words that share a cue.
 * @param {Word[]} words
 * @param {string} label
 * @returns {Word[][]}
 */
function groupsOf(words, label) {
  const groups = [];
  /** @type {Word[]} */
  let group = [];
  for (const word of words) {
    if (group.length && isEnd(group, word)) {
      groups.push(group);
      group = [];
    }
    while (group.length && !fits([...group, word], label)) {
      const cut = bestCut(group);
      groups.push(group.slice(0, cut));
      group = group.slice(cut);
    }
    group.push(word);
  }
  return group.length ? [...groups, group] : groups;
}

/**
 * @param {Word[]} group
 * @param {Word} following
 * @returns {boolean}
 */
function isEnd(group, following) {
  const last = group[group.length - 1];
  if (following.start - last.end > MAX_PAUSE_S) return true;
  return SENTENCE_END.test(last.text) && last.end - group[0].start >= MIN_SENTENCE_S;
}

/**
 * @param {Word[]} group
 * @param {string} label
 * @returns {boolean}
 */
function fits(group, label) {
  return endOf(group) - group[0].start <= MAX_CUE_S && wrapped(group, label).length <= MAX_LINES;
}

/**
 * @param {Word[]} group
 * @returns {number}
 */
function endOf(group) {
  return Math.max(...group.map((word) => word.end));
}

/**
 * Return the number of words to show first: up to the last clause end in the second half.
 * @param {Word[]} group
 * @returns {number}
 */
function bestCut(group) {
  for (let cut = group.length - 1; cut >= Math.floor((group.length + 1) / 2); cut--) {
    if (CLAUSE_END.test(group[cut - 1].text)) return cut;
  }
  return group.length;
}

/**
 * @param {Word[]} group
 * @param {string} label
 * @returns {string[]}
 */
function wrapped(group, label) {
  return linesOf(label + group.map((word) => word.text.trim()).join(" "));
}

/**
 * Break a text into lines. A word that is longer than a line has one of its own.
 * @param {string} text
 * @returns {string[]}
 */
function linesOf(text) {
  const lines = [];
  for (const word of text.split(/\s+/u).filter(Boolean)) {
    const last = lines.at(-1);
    const longer = `${last} ${word}`;
    if (last !== undefined && [...longer].length <= MAX_LINE_CHARS)
      lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/**
 * @param {string} text
 * @returns {string}
 */
function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/**
 * @param {number} milliseconds
 * @param {string} separator
 * @returns {string}
 */
function timeOf(milliseconds, separator) {
  const seconds = Math.floor(milliseconds / 1000);
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const clock = parts.map((part) => String(part).padStart(2, "0")).join(":");
  return `${clock}${separator}${String(milliseconds % 1000).padStart(3, "0")}`;
}
