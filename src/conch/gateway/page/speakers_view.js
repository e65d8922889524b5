/** Who speaks in an answer: each has a colour and a name, which can be changed. */

import { clock, el } from "./dom.js";

/** Colours in `palette.css`; further speakers begin again. */
const COLOURS = 8;

export class SpeakersView {
  /** @param {HTMLElement} host Where the marks are shown. */
  constructor(host) {
    this.host = host;
    /** @type {Map<string, string>} Names that were given, by the label of the server. */
    this.names = new Map();
    /** @type {string[]} Labels, in the order in which they have colours. */
    this.order = [];
    /** @type {Map<string, {item: HTMLElement, time: HTMLElement}>} */
    this.rows = new Map();
    this.element = el("ul", { class: "speakers", "aria-label": "Speakers", hidden: true });
  }

  /** @param {{name: string, seconds: number}[]} speakers All so far. */
  show(speakers) {
    this.element.hidden = !speakers.length;
    const items = speakers.map(({ name, seconds }) => {
      const row = this.rows.get(name) ?? this.row(name);
      row.time.textContent = clock(seconds);
      return row.item;
    });
    // A field that is taken out would lose the keyboard's place.
    for (const item of [...this.element.children]) if (!items.includes(item)) item.remove();
    for (const [at, item] of items.entries()) {
      const there = this.element.children[at] ?? null;
      if (there !== item) this.element.insertBefore(item, there);
    }
  }

  /**
   * @param {string} label
   * @returns {{item: any, time: any}} What names a speaker, and where the seconds stand.
   */
  row(label) {
    const field = el("input", {
      ...{ type: "text", value: this.nameOf(label), placeholder: label, maxlength: 60 },
      ...{ autocomplete: "off", spellcheck: false, "aria-label": `Name of speaker ${label}` },
      on: { input: (event) => this.rename(label, event.target.value.trim()) },
    });
    const time = el("span");
    const row = { item: el("li", { class: this.colour(label) }, field, time), time };
    this.rows.set(label, row);
    return row;
  }

  /**
   * Return what names the speaker of a segment, whose class is `colour`.
   * @param {string} label
   * @returns {HTMLElement}
   */
  mark(label) {
    return el("span", { class: "speaker", "data-label": label }, this.nameOf(label));
  }

  /**
   * Return a transcript with the names that were given.
   * @param {any} transcript
   * @returns {any}
   */
  named(transcript) {
    return renamed(transcript, this.names);
  }

  /**
   * @param {string} label
   * @param {string} name Empty: the label.
   */
  rename(label, name) {
    if (name) this.names.set(label, name);
    else this.names.delete(label);
    for (const mark of this.host.querySelectorAll(".speaker"))
      if (mark.dataset.label === label) mark.textContent = this.nameOf(label);
  }

  /**
   * @param {string} label
   * @returns {string}
   */
  nameOf(label) {
    return this.names.get(label) ?? label;
  }

  /**
   * @param {string} label
   * @returns {string} A class.
   */
  colour(label) {
    if (!this.order.includes(label)) this.order.push(label);
    return `voice-${this.order.indexOf(label) % COLOURS}`;
  }
}

/**
 * Return a transcript with other names. Who has the same name is one speaker.
 * @param {any} transcript
 * @param {Map<string, string>} names By the label of the server.
 * @returns {any}
 */
export function renamed(transcript, names) {
  if (!names.size) return transcript;
  const nameOf = (label) => names.get(label) ?? label;
  const spoken = (item) => (item.speaker ? { ...item, speaker: nameOf(item.speaker) } : item);
  const segments = transcript.segments?.map((segment) =>
    segment.words ? { ...spoken(segment), words: segment.words.map(spoken) } : spoken(segment),
  );
  /** @type {Map<string, number>} */
  const seconds = new Map();
  for (const item of transcript.speakers ?? []) {
    const name = nameOf(item.name);
    seconds.set(name, (seconds.get(name) ?? 0) + item.seconds);
  }
  const found = {
    segments,
    turns: transcript.turns?.map(spoken),
    speakers: transcript.speakers && [...seconds].map(([name, s]) => ({ name, seconds: s })),
    overlaps: transcript.overlaps?.map((item) => ({
      ...item,
      speakers: [...new Set(item.speakers.map(nameOf))],
    })),
  };
  const known = Object.entries(found).filter(([, value]) => value !== undefined);
  return { ...transcript, ...Object.fromEntries(known) };
}
