/** Who speaks in an answer: each has a colour and a name, which can be changed. */

import { clock, el } from "./dom.js";

/** Colours in `palette.css`; further speakers begin again. */
const COLOURS = 8;
/** Labels as the server gives them. */
const LETTERS = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZ"];

export class SpeakersView {
  /**
   * @param {HTMLElement} host Where the marks are shown.
   * @param {(label: string, name: string) => void} [onName] In place of `rename`.
   */
  constructor(host, onName = (label, name) => this.rename(label, name)) {
    this.host = host;
    this.onName = onName;
    /** @type {Map<string, string>} Names that were given, by the label of the server. */
    this.names = new Map();
    /** @type {string[]} Labels, in the order in which they have colours. */
    this.order = [];
    /** @type {string[]} Labels of those that are shown. */
    this.labels = [];
    /** @type {Map<string, {item: any, field: any, time: any}>} By label. */
    this.rows = new Map();
    this.element = el("ul", { class: "speakers", "aria-label": "Speakers", hidden: true });
  }

  /** @param {{name: string, seconds: number}[]} speakers All so far. */
  show(speakers) {
    this.element.hidden = !speakers.length;
    this.labels = speakers.map(({ name }) => name);
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
   * @returns {{item: any, field: any, time: any}} What names a speaker, and where the seconds stand.
   */
  row(label) {
    const field = el("input", {
      ...{ type: "text", value: this.nameOf(label), placeholder: label, maxlength: 60 },
      ...{ autocomplete: "off", spellcheck: false, "aria-label": `Name of speaker ${label}` },
      on: { input: (event) => this.onName(label, event.target.value.trim()) },
    });
    const time = el("span");
    const row = { item: this.tinted(el("li", {}, field, time), label), field, time };
    this.rows.set(label, row);
    return row;
  }

  /**
   * Return what names the speaker of a segment, which is `tinted`.
   * @param {string} label
   * @returns {HTMLElement}
   */
  mark(label) {
    return el("span", { class: "speaker", "data-label": label }, this.nameOf(label));
  }

  /**
   * Return a choice of who speaks: all that are shown, or one more.
   * @param {string} label
   * @param {() => void} onChange
   * @returns {HTMLSelectElement}
   */
  choice(label, onChange) {
    const another = LETTERS.find((letter) => !this.labels.includes(letter));
    const options = this.labels.map((value) =>
      el("option", { value, selected: value === label, "data-label": value }, this.nameOf(value)),
    );
    return el(
      "select",
      { class: "speaker", tabindex: -1, "aria-label": "Who speaks", on: { change: onChange } },
      ...options,
      another && el("option", { value: another }, "another one"),
    );
  }

  /**
   * @param {string} label
   * @param {string} name Empty: the label.
   */
  rename(label, name) {
    if (name) this.names.set(label, name);
    else this.names.delete(label);
    const field = this.rows.get(label)?.field;
    if (field && field.value.trim() !== this.nameOf(label)) field.value = name;
    for (const mark of this.host.querySelectorAll("[data-label]"))
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
   * Give an element, with all in it, the colour of a speaker.
   * @template {HTMLElement} T
   * @param {T} element
   * @param {string} label
   * @returns {T}
   */
  tinted(element, label) {
    if (!this.order.includes(label)) this.order.push(label);
    element.style.setProperty("--voice", `var(--voice-${this.order.indexOf(label) % COLOURS})`);
    return element;
  }
}
