/** Corrections of a transcript: edits in their order, over what the server said. */

/**
 * @typedef {{segment: number, word: number, text: string}} WordEdit Empty: nobody said it.
 * @typedef {{segments: number[], speaker: string}} TurnEdit
 * @typedef {{label: string, name: string}} NameEdit Empty: the label is the name.
 * @typedef {WordEdit | TurnEdit | NameEdit} Edit
 * @typedef {{words: Map<string, string>, speakers: Map<number, string>,
 *   names: Map<string, string>}} Changes By `wordKey`, segment and label.
 */

/** Seconds of silence that begin a paragraph, as in the text that the server writes. */
const PAUSE_S = 3;
/** Seconds after which a paragraph ends with its segment. */
const LONG_S = 45;

export class Corrections {
  /** @param {{edits?: Edit[], count?: number}} [kept] `count` edits hold, and the others are undone. */
  constructor({ edits = [], count = 0 } = {}) {
    this.edits = edits;
    this.count = count;
  }

  /** @param {Edit} edit */
  add(edit) {
    this.edits.length = this.count;
    // A name comes letter by letter, and is one edit.
    if ("label" in edit && this.edits.at(-1)?.label === edit.label) this.edits.pop();
    this.count = this.edits.push(edit);
  }

  /** @returns {Edit | undefined} The edit that holds no longer. */
  undo() {
    return this.count > 0 ? this.edits[--this.count] : undefined;
  }

  /** @returns {Edit | undefined} The edit that holds again. */
  redo() {
    return this.count < this.edits.length ? this.edits[this.count++] : undefined;
  }

  /** @returns {Changes} */
  changes() {
    const changes = { words: new Map(), speakers: new Map(), names: new Map() };
    for (const edit of this.edits.slice(0, this.count)) {
      if ("label" in edit) changes.names.set(edit.label, edit.name);
      else if ("word" in edit) changes.words.set(wordKey(edit.segment, edit.word), edit.text);
      else edit.segments.forEach((at) => changes.speakers.set(at, edit.speaker));
    }
    return changes;
  }
}

/**
 * @param {number} segment
 * @param {number} word
 * @returns {string}
 */
export function wordKey(segment, word) {
  return `${segment} ${word}`;
}

/**
 * Return the words of a segment; without times, those of its text.
 * @param {any} segment
 * @returns {any[]}
 */
export function wordsOf(segment) {
  if (segment.words?.length) return segment.words;
  const texts = segment.text.split(/\s+/).filter(Boolean);
  return texts.map((text) => ({ text }));
}

/**
 * Return whether a segment belongs to the paragraph before it.
 * @param {any[]} paragraph Segments.
 * @param {any} segment
 * @returns {boolean}
 */
export function continues(paragraph, segment) {
  const last = paragraph.at(-1);
  return (
    last !== undefined &&
    last.speaker === segment.speaker &&
    last.channel === segment.channel &&
    segment.start - last.end < PAUSE_S &&
    last.end - paragraph[0].start < LONG_S
  );
}

/**
 * Return a transcript as it is corrected. Who has the same name is one speaker.
 * @param {any} transcript
 * @param {Partial<Changes>} changes
 * @returns {any}
 */
export function corrected(
  transcript,
  { words = new Map(), speakers = new Map(), names = new Map() },
) {
  if (!words.size && !speakers.size && !names.size) return transcript;
  const nameOf = (label) => names.get(label) || label;
  const segments = transcript.segments.map((segment, at) => {
    const said = wordsOf(segment);
    const texts = said.map((word, place) => words.get(wordKey(at, place)) ?? word.text);
    const spoken = (item) =>
      item.speaker ? { ...item, speaker: nameOf(speakers.get(at) ?? item.speaker) } : item;
    const written = said.flatMap((word, place) =>
      texts[place] === word.text ? [word] : retimed(word, texts[place]),
    );
    return {
      ...spoken(withTexts(segment, said, texts)),
      ...(segment.words?.length && { words: written.map(spoken) }),
    };
  });
  const texts = segments.map(({ text }) => text);
  const made = { ...withTexts(transcript, transcript.segments, texts), segments };
  // A turn goes with the segment of its speaker that holds its middle.
  const whoSays = (label, { start, end }) => {
    const middle = (start + end) / 2;
    const holds = (one) => one.speaker === label && one.start <= middle && middle <= one.end;
    return nameOf(speakers.get(transcript.segments.findIndex(holds)) ?? label);
  };
  if (transcript.turns)
    made.turns = transcript.turns.map((turn) => ({
      ...turn,
      speaker: whoSays(turn.speaker, turn),
    }));
  if (transcript.overlaps)
    made.overlaps = transcript.overlaps.map((item) => ({
      ...item,
      speakers: [...new Set(item.speakers.map((label) => whoSays(label, item)))],
    }));
  if (transcript.speakers && (speakers.size || names.size)) {
    const turns = made.turns ?? [];
    const inTurns = new Set(turns.map(({ speaker }) => speaker));
    // A segment that is given away may hold the middle of no turn.
    const spans = [...turns, ...segments.filter(({ speaker }) => !inTurns.has(speaker))];
    const lengths = speakers.size
      ? spans.map(({ speaker, start, end }) => [speaker, end - start])
      : transcript.speakers.map(({ name, seconds }) => [nameOf(name), seconds]);
    const sums = new Map();
    for (const [name, seconds] of lengths)
      if (name) sums.set(name, (sums.get(name) ?? 0) + seconds);
    made.speakers = [...sums].map(([name, seconds]) => {
      const known = transcript.speakers.find((speaker) => nameOf(speaker.name) === name);
      return { ...known, name, seconds };
    });
  }
  return made;
}

/**
 * Return a text with other parts in place of its own, and what stands between them.
 * @param {string} text
 * @param {{text: string}[]} parts
 * @param {string[]} others As many; one that is empty takes the space before it away.
 * @returns {string}
 */
function replaced(text, parts, others) {
  let [made, place] = ["", 0];
  for (const [at, part] of parts.entries()) {
    const found = text.indexOf(part.text, place);
    if (found < 0) return others.filter(Boolean).join(" ");
    const between = text.slice(place, found);
    made += others[at] ? between + others[at] : between.trimEnd();
    place = found + part.text.length;
  }
  return (made + text.slice(place)).trim();
}

/**
 * Return what stands in the place of a word, letter for letter in its time.
 * @param {any} word
 * @param {string} text
 * @returns {any[]}
 */
function retimed(word, text) {
  const texts = text.split(/\s+/).filter(Boolean);
  const share = (word.end - word.start) / texts.join("").length;
  let end = word.start;
  return texts.map((one) => {
    const start = end;
    end = start + share * one.length;
    return { ...word, text: one, start, end, confidence: 1 };
  });
}

/**
 * Return a segment or a transcript whose parts have other texts.
 * @param {any} item
 * @param {{text: string}[]} parts
 * @param {string[]} texts
 * @returns {any}
 */
function withTexts(item, parts, texts) {
  if (parts.every((part, at) => part.text === texts[at])) return item;
  const text = replaced(item.text, parts, texts);
  const [best, ...others] = item.nbest ?? [];
  return { ...item, text, ...(best && { nbest: [{ ...best, text }, ...others] }) };
}
