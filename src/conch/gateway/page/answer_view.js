/** One answer: its words, the path that made it, and what can be done with it. */

import { Corrections, continues, corrected, wordKey, wordsOf } from "./corrections.js";
import { button, clock, el } from "./dom.js";
import { downloads } from "./downloads.js";
import { candidatesOf } from "./nbest_view.js";
import { duration, plan, taken } from "./path_model.js";
import { PathView } from "./path_view.js";
import { SpeakersView } from "./speakers_view.js";

/** Confidences below which a word is shaded, and shaded more. */
const SHADES = [0.9, 0.7, 0.5];
/** Words that the Tab key stops at. */
const DOUBTFUL = ".shade-2, .shade-3";

/**
 * @typedef {{element: HTMLElement, said: string, text: string, start: number, end: number,
 *   confidence: number}} Word `said` by the server.
 */

export class AnswerView {
  /**
   * @param {object} settings
   * @param {string} settings.title
   * @param {string} settings.fileName Without its ending.
   * @param {import("./path_model.js").Component[]} settings.components
   * @param {import("./player.js").Player} settings.player
   * @param {(() => Promise<any>) | null} settings.askCandidates Returns n-best lists too.
   * @param {(error: Error) => string} settings.explain
   * @param {(edit: import("./corrections.js").Edit) => void} settings.onCorrection
   */
  constructor({ title, fileName, components, player, askCandidates, explain, onCorrection }) {
    /** @type {any} What the server said. */
    this.transcript = null;
    this.corrections = new Corrections();
    this.changes = this.corrections.changes();
    /** @type {any[]} The segments of the last paragraph. */
    this.paragraph = [];
    this.onCorrection = onCorrection;
    /** @type {Word[]} */
    this.words = [];
    this.components = components;
    this.player = player;
    this.fileName = fileName;
    this.askCandidates = askCandidates;
    this.explain = explain;
    this.meta = el("p", { class: "answer-meta" });
    this.text = el("div", {
      ...{
        class: "transcript",
        role: "group",
        "aria-label": "Transcript: press a word to hear it, Enter to correct it",
      },
      on: {
        click: (event) => this.pressed(event),
        dblclick: (event) => event.target.matches(".word") && this.edit(event.target),
        keydown: (event) => this.moved(event),
      },
    });
    this.speakers = new SpeakersView(this.text, (label, name) => this.correct({ label, name }));
    this.undoButton = button("Undo", () => this.changed(this.corrections.undo()));
    this.redoButton = button("Redo", () => this.changed(this.corrections.redo()));
    this.warnings = el("div");
    this.tools = el("div", { class: "answer-tools" });
    this.candidates = el("div", { class: "candidates" });
    const path = el("div");
    this.element = el(
      "article",
      { class: "answer" },
      el("h3", {}, title),
      this.tools,
      this.speakers.element,
      this.text,
      this.meta,
      this.warnings,
      this.candidates,
      el("h4", { class: "path-caption" }, "The path"),
      path,
    );
    this.path = new PathView(path);
    this.path.show(plan(components));
    this.path.running = true;
    player.follow(this, (seconds) => this.markPlaying(seconds));
  }

  /**
   * Add the segments of a part of a streamed answer.
   * @param {any} part
   */
  add(part) {
    for (const segment of part.segments ?? []) this.append(segment, -1);
    this.arrange();
  }

  /**
   * Show the whole answer.
   * @param {any} transcript
   * @param {any} [kept] Corrections.
   */
  finish(transcript, kept) {
    this.transcript = transcript;
    this.corrections = new Corrections(kept);
    this.changes = this.corrections.changes();
    this.changes.names.forEach((name, label) => this.speakers.rename(label, name));
    const place = this.place();
    this.write();
    if (place >= 0) this.goTo(place);
    this.path.running = false;
    this.path.show(taken(this.components, transcript.stages));
    const seconds = (transcript.stages.total?.ms ?? 0) / 1000;
    const speed = seconds > 0 ? `, ${fast(transcript.duration / seconds)} × as fast as spoken` : "";
    const time = seconds > 0 ? ` in ${duration(seconds * 1000)}${speed}` : "";
    const warnings = (transcript.warnings ?? []).map((text) => el("p", { class: "warning" }, text));
    const ask = button("Other candidates", () => this.showCandidates(ask));
    const asked = this.askCandidates ? [" ", ask] : [];
    this.meta.replaceChildren(`${transcript.duration.toFixed(1)} s of audio${time}`, ...asked);
    this.warnings.replaceChildren(...warnings);
    const said = () => corrected(transcript, this.changes);
    const files = downloads(said, this.fileName, this.explain);
    this.tools.replaceChildren(files, this.undoButton, this.redoButton);
  }

  /** Write the whole text, as it is corrected. */
  write() {
    this.words = [];
    this.paragraph = [];
    this.text.replaceChildren();
    const { speakers } = this.changes;
    this.speakers.show(corrected(this.transcript, { speakers }).speakers ?? []);
    this.transcript.segments.forEach((segment, at) =>
      this.append({ ...segment, speaker: speakers.get(at) ?? segment.speaker }, at),
    );
    if (!this.transcript.text)
      this.text.append(el("p", { class: "nothing" }, "No speech was found."));
    this.arrange();
    this.mayUndo();
  }

  /**
   * Mark the words that the other answer lacks.
   * @param {boolean[]} differs By word.
   */
  mark(differs) {
    this.words.forEach(({ element }, at) => element.classList.toggle("is-different", differs[at]));
  }

  /**
   * Add a segment: to the last paragraph, or as a new one.
   * @param {any} segment
   * @param {number} at Its place; -1 while more come.
   */
  append(segment, at) {
    const parts = wordsOf(segment).map((word, place) => [
      word.start ?? segment.start,
      this.word(word, segment, wordKey(at, place)),
    ]);
    for (const span of segment.unrecognised ?? []) parts.push([span.start, this.gap(span)]);
    parts.sort(([one], [other]) => one - other);
    // A space between the buttons, where lines may break.
    const inline = parts.flatMap(([, element]) => [element, " "]);
    if (continues(this.paragraph, segment)) {
      this.paragraph.push(segment);
      this.text.lastElementChild.lastElementChild.append(...inline);
    } else {
      this.paragraph = [segment];
      const { start, channel, speaker } = segment;
      const label = channel ? `${clock(start)} [${channel}]` : clock(start);
      const give = ({ target }) => {
        const words = target.parentElement.querySelectorAll(".word");
        const segments = [...words].map((word) => parseInt(word.dataset.key, 10));
        this.correct({ segments: [...new Set(segments)], speaker: target.value });
      };
      const mark = () =>
        at < 0 ? this.speakers.mark(speaker) : this.speakers.choice(speaker, give);
      const who = speaker ? [mark(), " "] : [];
      const time = el("span", { class: "time" }, label);
      const words = el("span", { class: "words" }, ...who, ...inline);
      const element = el("p", { class: "segment" }, time, words);
      this.text.append(speaker ? this.speakers.tinted(element, speaker) : element);
    }
  }

  /**
   * @param {{text: string, start?: number, end?: number, confidence?: number}} word
   * @param {{start: number, end: number}} segment
   * @param {string} key
   * @returns {HTMLElement}
   */
  word(word, segment, key) {
    const { start = segment.start, end = segment.end, confidence = 1 } = word;
    const title =
      word.confidence === undefined
        ? null
        : `${start.toFixed(2)} s, confidence ${confidence.toFixed(2)}`;
    const element = el("button", {
      ...{ type: "button", class: "word", tabindex: -1, title },
      ...{ "data-start": start, "data-key": key },
    });
    const shown = { element, said: word.text, text: "", start, end, confidence };
    this.fill(shown);
    this.words.push(shown);
    return element;
  }

  /**
   * Write a word, as it is corrected.
   * @param {Word} word
   */
  fill(word) {
    const other = this.changes.words.get(word.element.dataset.key);
    word.text = other ?? word.said;
    word.element.textContent = word.text;
    word.element.hidden = !word.text;
    const shade = SHADES.filter((limit) => other === undefined && word.confidence < limit).length;
    for (let level = 0; level <= SHADES.length; level++)
      word.element.classList.toggle(`shade-${level}`, level === shade);
  }

  /**
   * @param {{start: number, end: number, heard: string}} span
   * @returns {HTMLElement}
   */
  gap(span) {
    const hint = span.heard ? `, perhaps “${span.heard}”` : "";
    const text = `[not recognised: ${(span.end - span.start).toFixed(1)} s${hint}]`;
    return el(
      "button",
      { type: "button", tabindex: -1, class: "gap", "data-start": span.start },
      text,
    );
  }

  /** Make one stop of the words for the Tab key: the arrows go from word to word. */
  arrange() {
    if (!this.text.querySelector('[tabindex="0"]')) this.stops()[0]?.setAttribute("tabindex", "0");
  }

  /** @param {MouseEvent} event */
  pressed(event) {
    const button = /** @type {HTMLElement} */ (event.target).closest("button");
    if (!button) return;
    this.stopAt(button);
    this.player.playFrom(Number(button.dataset.start));
  }

  /** @param {KeyboardEvent} event */
  moved(event) {
    // With these the keys are the browser's: Alt and Left go back in its history.
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const stops = this.stops();
    const at = this.place();
    if (at < 0) return;
    const last = stops.length - 1;
    const isDoubtful = (stop) => stop.matches(DOUBTFUL);
    const doubtful = event.shiftKey
      ? stops.slice(0, at).findLastIndex(isDoubtful)
      : stops.findIndex((stop, place) => place > at && isDoubtful(stop));
    const places = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: last, Tab: doubtful };
    const place = places[event.key];
    const edits = event.key === "Enter" && this.transcript && stops[at].matches(".word");
    if (!edits && !(place >= 0 && place <= last)) return;
    event.preventDefault();
    if (edits) this.edit(stops[at]);
    else this.goTo(place);
  }

  /**
   * Let a word be corrected where it stands.
   * @param {HTMLElement} word
   */
  edit(word) {
    if (!this.transcript) return;
    this.player.audio.pause();
    const text = word.textContent;
    const [segment, place] = word.dataset.key.split(" ").map(Number);
    const close = (isAccepted) => {
      input.removeEventListener("blur", accept);
      input.remove();
      word.hidden = false;
      const typed = input.value.trim().replace(/\s+/g, " ");
      if (isAccepted && typed !== text) this.correct({ segment, word: place, text: typed });
    };
    const accept = () => close(true);
    const keydown = (event) => {
      // An input method takes these keys for itself.
      const ends = ["Enter", "Escape", "Tab"].includes(event.key) && !event.isComposing;
      // After Tab the word goes to the next doubtful one.
      if (event.key !== "Tab") event.stopPropagation();
      if (!ends) return;
      if (event.key !== "Tab") event.preventDefault();
      close(event.key !== "Escape");
      this.goTo(at);
    };
    const input = el("input", {
      ...{ class: "edit", value: text, size: text.length + 1, "aria-label": `Correct ${text}` },
      ...{ autocomplete: "off", on: { blur: accept, keydown } },
    });
    const at = this.stops().indexOf(word);
    word.hidden = true;
    word.after(input);
    input.select();
  }

  /** @param {import("./corrections.js").Edit} edit */
  correct(edit) {
    this.corrections.add(edit);
    this.changed(edit);
  }

  /**
   * Show an edit that holds from now on, or no longer.
   * @param {import("./corrections.js").Edit} [edit]
   */
  changed(edit) {
    if (!edit) return;
    this.changes = this.corrections.changes();
    const was = this.place();
    const key = wordKey(edit.segment ?? edit.segments?.[0], edit.word ?? 0);
    if ("label" in edit) this.speakers.rename(edit.label, this.changes.names.get(edit.label) ?? "");
    else if ("word" in edit) this.fill(this.words.find((one) => one.element.dataset.key === key));
    else this.write();
    // Another word takes the place of one that goes away.
    const now = this.stops().findIndex((stop) => stop.dataset.key === key);
    if (was >= 0) this.goTo(now >= 0 ? now : was);
    this.mayUndo();
    this.onCorrection(edit);
  }

  /** Tell whether there is something to undo. */
  mayUndo() {
    const { edits, count } = this.corrections;
    this.undoButton.setAttribute("aria-disabled", String(count === 0));
    this.redoButton.setAttribute("aria-disabled", String(count === edits.length));
  }

  /** @returns {HTMLElement[]} What the arrow keys go through. */
  stops() {
    return [...this.text.querySelectorAll("button:not([hidden]), select")];
  }

  /** @returns {number} The place of the stop with the keyboard's focus, or -1. */
  place() {
    return this.stops().indexOf(/** @type {HTMLElement} */ (document.activeElement));
  }

  /** @param {number} place Of a stop, or the last one before. */
  goTo(place) {
    const stop = this.stops()
      .slice(0, place + 1)
      .at(-1);
    if (!stop) return;
    this.stopAt(stop);
    stop.focus();
  }

  /** @param {HTMLElement} button */
  stopAt(button) {
    this.text
      .querySelectorAll('[tabindex="0"]')
      .forEach((one) => one.setAttribute("tabindex", "-1"));
    button.setAttribute("tabindex", "0");
  }

  /** @param {number | null} seconds */
  markPlaying(seconds) {
    const at = seconds === null ? -1 : wordAt(this.words, seconds);
    const playing = this.words[at]?.element ?? null;
    if (playing === this.playing) return;
    this.playing?.classList.remove("is-playing");
    this.playing?.removeAttribute("aria-current");
    playing?.classList.add("is-playing");
    playing?.setAttribute("aria-current", "true");
    this.playing = playing;
  }

  /** @param {HTMLButtonElement} button */
  async showCandidates(button) {
    // A disabled button would lose the keyboard's place.
    if (button.getAttribute("aria-disabled")) return;
    button.setAttribute("aria-disabled", "true");
    button.textContent = "Asking again…";
    try {
      const found = candidatesOf(await this.askCandidates());
      this.candidates.replaceChildren(found);
      if (button === document.activeElement) found.focus();
      button.remove();
    } catch (error) {
      button.removeAttribute("aria-disabled");
      button.textContent = "Other candidates";
      const why = error.name === "AbortError" ? "Cancelled." : this.explain(error);
      this.candidates.replaceChildren(el("p", { class: "warning", role: "alert" }, why));
    }
  }
}

/**
 * Return the place of the word that is heard, or -1 between words.
 * @param {{start: number, end: number}[]} words In order of time.
 * @param {number} seconds
 * @returns {number}
 */
function wordAt(words, seconds) {
  let [low, high] = [0, words.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (words[middle].start <= seconds) low = middle + 1;
    else high = middle;
  }
  return low > 0 && seconds <= words[low - 1].end + 0.05 ? low - 1 : -1;
}

/**
 * @param {number} factor
 * @returns {string}
 */
function fast(factor) {
  return factor >= 10 ? factor.toFixed(0) : factor.toFixed(1);
}
