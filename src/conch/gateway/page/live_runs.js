/** Live text by its speakers: cut where they change, and written without writing it all again. */

/**
 * @typedef {import("./live_model.js").Word} Word
 * @typedef {import("./live_model.js").Utterance} Utterance
 * @typedef {{who: string, text: string, begins: boolean}} Run Text of one speaker, "" if he is not
 *   known; `begins`: another spoke before.
 */

/**
 * Return how many pieces of a text on the page stay when it becomes another, those that the new
 * text begins with, one after the other, and what comes behind them.
 * @param {Run[]} pieces
 * @param {Run[]} runs
 * @returns {{kept: number, rest: Run[]}}
 */
export function piecesThatStay(pieces, runs) {
  const rest = [...runs];
  let kept = 0;
  for (const { who, text, begins } of pieces) {
    const [run] = rest;
    if (run?.who !== who || run.begins !== begins || !run.text.startsWith(text)) break;
    const left = run.text.slice(text.length);
    rest.splice(0, 1, ...(left ? [{ ...run, text: left, begins: false }] : []));
    kept += 1;
  }
  return { kept, rest };
}

/**
 * Return who says the most letters of words; nobody if none has a speaker.
 * @param {Word[]} words
 * @returns {string}
 */
export function speakerOf(words) {
  /** @type {Map<string, number>} */
  const letters = new Map();
  for (const { speaker, text } of words)
    if (speaker) letters.set(speaker, (letters.get(speaker) ?? 0) + text.length);
  return [...letters].reduce((most, one) => (one[1] > most[1] ? one : most), ["", 0])[0];
}

/**
 * Cut the parts of an utterance where the speaker changes.
 * @param {Utterance} utterance
 * @returns {{firm: Run[], tentative: Run[], newest: Run[]}}
 */
export function runsOf({ firm, tentative, newest, words }) {
  let number = 0;
  let before = "";
  /** @param {string} text */
  const cut = (text) => {
    /** @type {Run[]} */
    const runs = [];
    const add = (who, piece) => {
      const last = runs.at(-1);
      if (last && (!who || last.who === who)) last.text += piece;
      else if (piece) runs.push({ who, text: piece, begins: Boolean(who) && who !== before });
      before = who || before;
    };
    let at = 0;
    for (; number < words.length; number += 1) {
      const word = words[number].text.trim();
      const start = at + text.slice(at).search(/\S|$/u);
      if (!text.startsWith(word, start) || start === text.length) break;
      add(words[number].speaker ?? "", text.slice(at, start + word.length));
      at = start + word.length;
    }
    add("", text.slice(at));
    return runs;
  };
  return { firm: cut(firm), tentative: cut(tentative), newest: cut(newest) };
}
