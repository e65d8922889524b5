/** Show the candidates that an answer was chosen from, with their scores. */

import { clock, el } from "./dom.js";
import { diffWords } from "./word_diff.js";

/** Columns of scores, each natural logarithms; one that no candidate has is left out. */
const SCORES = [
  ["score", "score"],
  ["am_score", "decoder"],
  ["lm_score", "language model"],
  ["ctc_score", "CTC"],
  ["attention_score", "attention"],
];

/**
 * @param {any} transcript With n-best lists.
 * @returns {HTMLElement}
 */
export function candidatesOf(transcript) {
  const segments = transcript.segments.map((segment) =>
    tableOf(segment.nbest ?? [], `${clock(segment.start)} to ${clock(segment.end)}`),
  );
  const whole =
    transcript.segments.length === 1
      ? []
      : [
          el(
            "details",
            { class: "by-segment" },
            el("summary", {}, `Segment by segment (${segments.length})`),
            ...segments,
          ),
        ];
  const note =
    "Scores are natural logarithms: the highest is the best. Words that differ from the best are marked.";
  return el(
    "div",
    { tabindex: -1 },
    el("h4", {}, "Candidates"),
    el("p", { class: "hint" }, note),
    tableOf(transcript.nbest, "the whole audio"),
    ...whole,
  );
}

/**
 * @param {any[]} nbest Best first.
 * @param {string} caption
 * @returns {HTMLElement}
 */
function tableOf(nbest, caption) {
  const columns = SCORES.filter(([name]) => nbest.some((one) => typeof one[name] === "number"));
  const best = wordsOf(nbest[0]?.text ?? "");
  const rows = nbest.map((one, at) => {
    const words = wordsOf(one.text);
    const differs = diffWords(best, words).b;
    const text = words.flatMap((word, place) => [
      at && differs[place] ? el("mark", { class: "is-different" }, word) : word,
      " ",
    ]);
    const scores = columns.map(([name]) =>
      el("td", { class: "number" }, one[name]?.toFixed(2) ?? ""),
    );
    return el("tr", {}, el("td", { class: "candidate" }, ...text), ...scores);
  });
  const heads = ["candidate", ...columns.map(([, title]) => title)];
  const table = el(
    "table",
    {},
    el("caption", {}, caption),
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, ...rows),
  );
  // Scores do not fit a phone: the table scrolls in its frame, and the page does not.
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": `Candidates of ${caption}` },
    table,
  );
}

/**
 * @param {string} text
 * @returns {string[]}
 */
function wordsOf(text) {
  return text.split(/\s+/).filter(Boolean);
}
