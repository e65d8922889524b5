/** Transcribe a file: once, or by two choices whose answers stand side by side. */

import { AnswerView } from "./answer_view.js";
import { componentsFor, transcribe } from "./api.js";
import { button, byId, el, stay } from "./dom.js";
import { forget, keep, keepCorrections, kept, touch } from "./kept.js";
import { onOneScale, taken } from "./path_model.js";
import { Player } from "./player.js";
import { StatusLine } from "./status_line.js";
import { diffWords } from "./word_diff.js";

/** Candidates to ask for. */
const NBEST = 5;
const LEGEND =
  "Press a word to hear it. The dimmer a word, the less sure it is. Enter or a double click " +
  "corrects it. The arrow keys go from word to word, Tab to the next doubtful one. Ctrl+Z undoes.";
const UNKEPT = "This browser keeps no texts: download this one before you leave the page.";
const MARKED = " Words that the other answer lacks are marked; case and punctuation do not count.";

/**
 * @typedef {{title: string, fields: Record<string, any>}} Way
 */

export class FilePanel {
  /**
   * @param {HTMLElement} host
   * @param {object} settings
   * @param {() => Way[] | null} settings.ways The choices as they stand: one, or two to compare;
   *   null: one is wrong.
   * @param {() => void} settings.onCompare Asked to compare with another choice.
   * @param {(error: Error) => string} settings.explain
   */
  constructor(host, { ways, onCompare, explain }) {
    this.host = host;
    this.ways = ways;
    this.explain = explain;
    /** @type {File | null} */
    this.file = null;
    /** Of the file, for what is kept of it. */
    this.id = "";
    /** @type {AnswerView[]} */
    this.views = [];
    /** @type {AbortController | null} */
    this.running = null;
    /** Whether the browser lacks answers or corrections that are shown. */
    this.isUnkept = false;
    this.name = el("h2", { tabindex: -1 });
    this.status = new StatusLine();
    this.upload = progressBar("Upload");
    this.recognition = progressBar("Recognition");
    this.bars = el("div", { class: "bars" }, this.upload.element, this.recognition.element);
    this.cancelButton = button("Cancel", () => this.cancel());
    this.againButton = button("Transcribe again", () => this.run());
    this.compareButton = button("Compare with another choice", onCompare);
    this.forgetButton = button("Close and forget", () => this.forget());
    this.audio = el("audio", { controls: true, preload: "metadata", "aria-label": "The file" });
    this.player = new Player(this.audio, () => this.unplayable());
    const silence = "The browser cannot play this file, so its words stay silent.";
    this.silent = el("p", { class: "hint", hidden: true }, silence);
    this.legend = el("p", { class: "hint legend" });
    this.answers = el("div", { class: "answers" });
    const buttons = el(
      "div",
      { class: "buttons" },
      this.cancelButton,
      this.againButton,
      this.compareButton,
      this.forgetButton,
    );
    const parts = [this.name, this.status.element, this.bars, this.audio, this.silent];
    host.append(...parts, buttons, this.legend, this.answers);
    document.addEventListener("keydown", (event) => this.pressed(event));
    this.stay = (event) => this.isCorrected && stay(event);
  }

  /**
   * Show what is kept of a file, or transcribe it.
   * @param {File} file
   */
  async open(file) {
    if (this.isUnkept && !this.mayLose("Open another one?")) return;
    const id = `${file.name} ${file.size} ${file.lastModified}`;
    this.begin(id, file.name, file);
    const work = await kept(id).catch(() => null);
    if (this.id !== id) return;
    // Without corrections the choices as they stand are tried.
    if (work?.corrections.some(({ count }) => count)) this.reopen({ ...work, file });
    else this.run();
    this.name.focus({ preventScroll: true });
    this.host.scrollIntoView({ block: "start" });
  }

  /** Show the file that was open in this tab before the page was loaded. */
  async restore() {
    const work = await kept(history.state).catch(() => null);
    if (work && !this.id) this.reopen(work);
  }

  /**
   * @param {string} id
   * @param {string} name
   * @param {File | null} file
   */
  begin(id, name, file) {
    this.cancel();
    this.id = id;
    this.setUnkept(false);
    // The browser keeps it for this tab.
    history.replaceState(id, "");
    this.file = file;
    this.show([]);
    this.host.hidden = false;
    this.audio.hidden = !file;
    this.silent.hidden = true;
    this.player.load(file);
    this.name.textContent = name;
  }

  /** @param {any} work As it was kept. */
  reopen({ id, name, file, answers, corrections }) {
    this.begin(id, name, file);
    // Without it the file only goes sooner.
    touch(id).catch(() => {});
    const { signal } = (this.running = new AbortController());
    const views = answers.map(({ way, components }) => this.viewOf(way, components, signal));
    this.show(views);
    views.forEach((view, at) => view.finish(answers[at].transcript, corrections[at]));
    this.busy(false);
    this.done(` It is as you left it.${file ? "" : " Choose the file again to hear it."}`);
  }

  /** Keep nothing of the file. */
  forget() {
    if (!this.mayLose("Close it?")) return;
    const { id } = this;
    this.begin("", "", null);
    this.host.hidden = true;
    byId("file").focus();
    this.report(forget(id));
  }

  get isCorrected() {
    return this.views.some((view) => view.corrections.count);
  }

  /**
   * @param {string} question
   * @returns {boolean} Whether there are no corrections, or the user lets them go.
   */
  mayLose(question) {
    return !this.isCorrected || confirm(`The corrections of this file will be lost. ${question}`);
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const isHeld = (event.ctrlKey || event.metaKey) && !event.altKey;
    if (!isHeld || event.key.toLowerCase() !== "z") return;
    // In a field the browser undoes what was typed.
    if (event.target.matches("input, textarea")) return;
    const view =
      this.views.find((one) => one.element.contains(document.activeElement)) ?? this.views[0];
    if (!view?.transcript) return;
    event.preventDefault();
    (event.shiftKey ? view.redoButton : view.undoButton).click();
  }

  /** Transcribe the file by the choices as they stand. */
  async run() {
    if (!this.file || !this.mayLose("Transcribe it again?")) return;
    this.cancel();
    const running = (this.running = new AbortController());
    const { id, file } = this;
    const ways = this.ways();
    if (!ways) {
      this.show([]);
      this.busy(false);
      this.status.say("A choice has a value that the server does not take.", true);
      return;
    }
    /** @type {AnswerView[]} */
    let views = [];
    this.busy(true);
    try {
      const paths = await Promise.all(ways.map((way) => componentsFor(way.fields, false)));
      running.signal.throwIfAborted();
      views = ways.map((way, at) => this.viewOf(way, paths[at], running.signal));
      this.show(views);
      const answers = [];
      // One after the other, so that neither slows the other's times.
      for (const [at, way] of ways.entries()) {
        await this.ask(way, views[at], running.signal, ways.length > 1);
        const { components, transcript } = views[at];
        answers.push({ way, components, transcript });
        // Each when it comes, as it can be corrected before the next one does.
        this.setUnkept(false);
        const work = { id, opened: Date.now(), name: file.name, file, answers };
        this.report(keep(work, correctionsOf(views)));
      }
      this.done();
    } catch (error) {
      if (this.running !== running) return;
      views.forEach((view) => (view.path.running = false));
      if (error.name === "AbortError") this.status.say("Cancelled.");
      else this.status.say(this.explain(error), true);
    } finally {
      if (this.running === running) this.busy(false);
    }
  }

  /**
   * Say that all answers are there.
   * @param {string} [note]
   */
  done(note = "") {
    const { views } = this;
    const isOne = views.length === 1;
    const said = isOne ? `Done: ${count(views[0].words.length, "word")}.` : this.compare(views);
    this.status.say(said + note);
    this.legend.textContent = LEGEND + (isOne ? "" : MARKED);
  }

  /** @param {Promise<void>} keeping What fails is told. */
  report(keeping) {
    keeping.catch(() => {
      this.setUnkept(true);
      this.status.say(UNKEPT, true);
    });
  }

  /** @param {boolean} isUnkept */
  setUnkept(isUnkept) {
    this.isUnkept = isUnkept;
    // Only while it is needed: it keeps a browser from holding the page ready for a return.
    if (isUnkept) addEventListener("beforeunload", this.stay);
    else removeEventListener("beforeunload", this.stay);
  }

  /** @param {AnswerView[]} views */
  show(views) {
    // A browser may accept a word in a field that goes away: it is for the views before.
    this.answers.replaceChildren(...views.map((view) => view.element));
    this.views = views;
    this.player.listeners.forEach(
      (_, owner) => views.includes(owner) || this.player.listeners.delete(owner),
    );
    this.answers.classList.toggle("is-comparison", views.length > 1);
    this.compareButton.textContent =
      views.length > 1 ? "Change the choices" : "Compare with another choice";
    this.legend.textContent = "";
  }

  /** Stop what runs; the server stops too. */
  cancel() {
    this.running?.abort();
  }

  /**
   * @param {Way} way
   * @param {AnswerView} view
   * @param {AbortSignal} signal
   * @param {boolean} isOneOfTwo
   */
  async ask(way, view, signal, isOneOfTwo) {
    signal.throwIfAborted();
    const of = isOneOfTwo ? `${way.title}: ` : "";
    this.upload.set(0);
    const reached = (end) =>
      this.recognition.set(this.player.duration ? Math.min(1, end / this.player.duration) : null);
    reached(0);
    this.status.say(`${of}Uploading…`);
    const fields = { ...way.fields, response_format: "conch", word_timestamps: true, stream: true };
    const transcript = await transcribe(this.file, fields, {
      signal,
      onUpload: (share) => {
        this.upload.set(share);
        if (share < 1) return;
        this.status.say(`${of}Recognising…`);
        reached(0);
      },
      onEvent: (event) => {
        if (event.type !== "transcript.part") return;
        view.add(event.transcript);
        reached(event.transcript.segments?.at(-1)?.end ?? 0);
      },
    });
    this.recognition.set(1);
    view.finish(transcript);
  }

  /**
   * Mark what differs, and return it in words.
   * @param {AnswerView[]} views
   * @returns {string}
   */
  compare([one, other]) {
    const texts = [one, other].map((view) => view.words.map((word) => word.text));
    const { a, b, edits } = diffWords(texts[0], texts[1]);
    one.mark(a);
    other.mark(b);
    const paths = onOneScale(
      [one, other].map((view) => taken(view.components, view.transcript.stages)),
    );
    [one, other].forEach((view, at) => view.path.show(paths[at]));
    return edits
      ? `Done: ${count(edits, "word")} marked.`
      : "Done: both answers have the same words.";
  }

  /**
   * @param {Way} way
   * @param {import("./path_model.js").Component[]} components
   * @param {AbortSignal} signal
   * @returns {AnswerView}
   */
  viewOf(way, components, signal) {
    const { id, file } = this;
    const beam = Number(way.fields.beam_size ?? NBEST);
    const fields = { ...way.fields, response_format: "conch", nbest: Math.min(NBEST, beam) };
    return new AnswerView({
      title: way.title,
      fileName: this.name.textContent.replace(/\.[^.]*$/, "") || "transcript",
      components,
      player: this.player,
      askCandidates: file && (() => transcribe(file, fields, { signal })),
      explain: this.explain,
      onCorrection: (edit) => this.corrected(id, edit),
    });
  }

  /**
   * Keep a correction, and mark what differs now.
   * @param {string} id
   * @param {import("./corrections.js").Edit} edit
   */
  corrected(id, edit) {
    this.report(keepCorrections(id, correctionsOf(this.views)));
    const areComplete = this.views.every((view) => view.transcript);
    if (this.views.length < 2 || !areComplete || "label" in edit) return;
    const said = this.compare(this.views);
    if (!this.isUnkept) this.status.say(said);
  }

  unplayable() {
    this.audio.hidden = true;
    this.silent.hidden = false;
  }

  /** @param {boolean} isBusy */
  busy(isBusy) {
    const others = [this.againButton, this.compareButton, this.forgetButton];
    const buttons = [this.cancelButton, ...others];
    const hasFocus = buttons.includes(document.activeElement);
    this.bars.hidden = this.cancelButton.hidden = !isBusy;
    others.forEach((one) => (one.hidden = isBusy || (!this.file && one !== this.forgetButton)));
    // A button that goes away must not take the keyboard's place with it.
    if (hasFocus) (isBusy ? this.cancelButton : this.againButton).focus();
  }
}

/**
 * @param {AnswerView[]} views
 * @returns {import("./corrections.js").Corrections[]}
 */
function correctionsOf(views) {
  return views.map((view) => view.corrections);
}

/**
 * @param {string} name
 * @returns {{element: HTMLElement, set: (share: number | null) => void}} Null: unknown.
 */
function progressBar(name) {
  const bar = el("progress", { max: 1, value: 0 });
  const set = (share) => (share === null ? bar.removeAttribute("value") : (bar.value = share));
  return { element: el("label", {}, el("span", {}, name), bar), set };
}

/**
 * @param {number} number
 * @param {string} thing
 * @returns {string}
 */
function count(number, thing) {
  return `${number} ${thing}${number === 1 ? "" : "s"}`;
}
