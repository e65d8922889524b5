/** One answer: its words, the path that made it, and what can be done with it. */

import { button, clock, el } from "./dom.js";
import { downloads } from "./downloads.js";
import { candidatesOf } from "./nbest_view.js";
import { duration, plan, taken } from "./path_model.js";
import { PathView } from "./path_view.js";
import { SpeakersView } from "./speakers_view.js";

/** Confidences below which a word is shaded, and shaded more. */
const SHADES = [0.9, 0.7, 0.5];

export class AnswerView {
  /**
   * @param {object} settings
   * @param {string} settings.title
   * @param {string} settings.fileName Without its ending.
   * @param {import("./path_model.js").Component[]} settings.components
   * @param {import("./player.js").Player} settings.player
   * @param {() => Promise<any>} settings.askCandidates Returns a transcript with n-best lists.
   * @param {(error: Error) => string} settings.explain
   */
  constructor({ title, fileName, components, player, askCandidates, explain }) {
    /** @type {any} */
    this.transcript = null;
    /** @type {{element: HTMLElement, text: string, start: number, end: number}[]} */
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
        "aria-label": "Transcript: press a word to hear it",
      },
      on: { click: (event) => this.pressed(event), keydown: (event) => this.moved(event) },
    });
    this.speakers = new SpeakersView(this.text);
    this.warnings = el("div");
    this.tools = el("div", { class: "answer-tools" });
    this.candidates = el("div", { class: "candidates" });
    const path = el("div");
    this.element = el(
      "article",
      { class: "answer" },
      el("h3", {}, title),
      this.speakers.element,
      this.text,
      this.meta,
      this.warnings,
      this.tools,
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
    for (const segment of part.segments ?? []) this.text.append(this.segment(segment));
    this.arrange();
  }

  /**
   * Show the whole answer.
   * @param {any} transcript
   */
  finish(transcript) {
    this.transcript = transcript;
    this.words = [];
    this.speakers.show(transcript.speakers ?? []);
    const place = this.place();
    this.text.replaceChildren(...transcript.segments.map((segment) => this.segment(segment)));
    if (!transcript.text) this.text.append(el("p", { class: "nothing" }, "No speech was found."));
    this.arrange();
    if (place >= 0) this.goTo(place);
    this.path.running = false;
    this.path.show(taken(this.components, transcript.stages));
    const seconds = (transcript.stages.total?.ms ?? 0) / 1000;
    const speed = seconds > 0 ? `, ${fast(transcript.duration / seconds)} × as fast as spoken` : "";
    const time = seconds > 0 ? ` in ${duration(seconds * 1000)}${speed}` : "";
    const warnings = (transcript.warnings ?? []).map((text) => el("p", { class: "warning" }, text));
    this.meta.replaceChildren(`${transcript.duration.toFixed(1)} s of audio${time}`);
    this.warnings.replaceChildren(...warnings);
    const ask = button("Other candidates", () => this.showCandidates(ask));
    this.tools.replaceChildren(
      downloads(() => this.speakers.named(this.transcript), this.fileName, this.explain),
      ask,
    );
  }

  /**
   * Mark the words that the other answer lacks.
   * @param {boolean[]} differs By word.
   */
  mark(differs) {
    this.words.forEach(({ element }, at) => element.classList.toggle("is-different", differs[at]));
  }

  /**
   * @param {any} segment
   * @returns {HTMLElement}
   */
  segment(segment) {
    const label = segment.channel
      ? `${clock(segment.start)} [${segment.channel}]`
      : clock(segment.start);
    const words = segment.words?.length
      ? segment.words
      : segment.text
          .split(/\s+/)
          .filter(Boolean)
          .map((text) => ({ text }));
    const parts = words.map((word) => [word.start ?? segment.start, this.word(word, segment)]);
    for (const span of segment.unrecognised ?? []) parts.push([span.start, this.gap(span)]);
    parts.sort(([one], [other]) => one - other);
    // A space between the buttons, where lines may break.
    const inline = parts.flatMap(([, element]) => [element, " "]);
    const who = segment.speaker ? [this.speakers.mark(segment.speaker), " "] : [];
    return el(
      "p",
      { class: segment.speaker ? `segment ${this.speakers.colour(segment.speaker)}` : "segment" },
      el("span", { class: "time" }, label),
      el("span", { class: "words" }, ...who, ...inline),
    );
  }

  /**
   * @param {{text: string, start?: number, end?: number, confidence?: number}} word
   * @param {{start: number, end: number}} segment
   * @returns {HTMLElement}
   */
  word(word, segment) {
    const { start = segment.start, end = segment.end, confidence = 1 } = word;
    const shade = SHADES.filter((limit) => confidence < limit).length;
    const title =
      word.confidence === undefined
        ? null
        : `${start.toFixed(2)} s, confidence ${confidence.toFixed(2)}`;
    const properties = { type: "button", tabindex: -1, class: `word shade-${shade}`, title };
    const element = el("button", { ...properties, "data-start": start }, word.text);
    this.words.push({ element, text: word.text, start, end });
    return element;
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
    if (!this.text.querySelector('button[tabindex="0"]')) {
      this.text.querySelector("button")?.setAttribute("tabindex", "0");
    }
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
    const at = this.place();
    const last = this.text.querySelectorAll("button").length - 1;
    const places = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: last };
    if (at < 0 || !(places[event.key] >= 0 && places[event.key] <= last)) return;
    event.preventDefault();
    this.goTo(places[event.key]);
  }

  /** @returns {number} The place of the button with the keyboard's focus, or -1. */
  place() {
    const buttons = [...this.text.querySelectorAll("button")];
    return buttons.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
  }

  /** @param {number} place Of a button, or the last one before. */
  goTo(place) {
    const button = [...this.text.querySelectorAll("button")].slice(0, place + 1).at(-1);
    if (!button) return;
    this.stopAt(button);
    button.focus();
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
