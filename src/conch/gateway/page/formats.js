/**
 * Write a transcript as text, SubRip, WebVTT or JSON, by the rules of `conch.wire.formats`: a
 * download of the page is the file that `conch transcribe` writes.
 */

import { joinedText } from "./joining.js";
import { cuesOf } from "./subtitles.js";

/** @typedef {import("./subtitles.js").Transcript} Transcript */

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
  return turns.map((turn) => `[${turn.channel}] ${joinedText(turn.texts)}\n`).join("");
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
        cue.lines.map((line) => `${line.replace(/-{2,}>/gu, "->")}\n`).join("") +
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
 * @param {Transcript} transcript
 * @returns {boolean}
 */
function isSplit(transcript) {
  return (transcript.channels?.length ?? 0) > 1;
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
