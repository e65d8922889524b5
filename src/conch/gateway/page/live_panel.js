/** Show live text as it is spoken: utterance by utterance, each in the states that it has. */

import { componentsFor } from "./api.js";
import { corrected } from "./corrections.js";
import { button, clock, el, stay } from "./dom.js";
import { downloads } from "./downloads.js";
import { LiveModel, told } from "./live_model.js";
import { piecesThatStay, runsOf, speakerOf } from "./live_runs.js";
import { ListenSession } from "./listen_session.js";
import { MUTED_DB, openMicrophone } from "./microphone.js";
import { plan, taken } from "./path_model.js";
import { PathView } from "./path_view.js";
import { SpeakersView } from "./speakers_view.js";
import { StatusLine } from "./status_line.js";

/** Utterances on the page; older ones stay in the downloads. */
const MAX_SHOWN = 200;
/** Frames after which a microphone counts as muted. */
const MUTED_FRAMES = 100;

const RESUMED = "Listening. The connection was lost, and the text goes on.";

const ENDPOINTS = {
  silence: "after a pause",
  length: "at its greatest length",
  end: "at the end",
  finalize: "by hand",
  lost: "where the connection was lost",
};

export class LivePanel {
  /**
   * @param {HTMLElement} host
   * @param {object} settings
   * @param {() => import("./file_panel.js").Way | null} settings.way The choices as they stand;
   *   null: one is wrong.
   * @param {() => any} settings.microphone The chosen device and switches.
   * @param {() => void} settings.onMicrophone The browser has opened a microphone.
   * @param {(state: "off" | "on" | "ending") => void} settings.onState
   * @param {(path: string) => Promise<string>} settings.explainRefusal Why it refuses at a path.
   * @param {(error: Error) => string} settings.explain
   */
  constructor(host, { way, microphone, onMicrophone, onState, explainRefusal, explain }) {
    this.host = host;
    this.way = way;
    this.choice = microphone;
    this.onMicrophone = onMicrophone;
    this.onState = onState;
    this.explainRefusal = explainRefusal;
    this.explain = explain;
    /** @type {import("./path_model.js").Component[]} */
    this.components = [];
    this.state = "off";
    /** All that was said since the page was loaded. */
    this.model = new LiveModel();
    /** @type {Map<number, any>} Elements by utterance. */
    this.shown = new Map();
    this.status = new StatusLine();
    this.levelBar = el("span", { class: "level-bar" });
    this.timer = el("span", { class: "figure" }, "0:00");
    this.lag = el("span", { class: "figure" }, "–");
    this.firmLag = el("span", { class: "figure" }, "–");
    this.endUtterance = button("End utterance", () => this.socket?.finalize());
    this.list = el("ol", { class: "utterances", tabindex: 0, "aria-label": "What was said" });
    this.speakers = new SpeakersView(this.list);
    this.tools = el("div", { class: "answer-tools" });
    const path = el("div");
    host.append(
      el("h2", {}, "Live"),
      el(
        "div",
        { class: "live-bar" },
        el("span", { class: "level", "aria-hidden": "true" }, this.levelBar),
        this.timer,
        el("span", {}, "lag ", this.lag),
        el("span", {}, "firm after ", this.firmLag),
        this.endUtterance,
      ),
      this.status.element,
      this.speakers.element,
      this.list,
      el(
        "p",
        { class: "hint legend" },
        el("span", { class: "firm" }, "Firm"),
        " stays. ",
        el("span", { class: "tentative" }, "Tentative"),
        " may change. ",
        el("span", { class: "newest" }, "Newest"),
        " was just heard. Lag: audio that was sent and is not recognised yet. Firm after: from " +
          "the first sight of a word until it stays.",
      ),
      el("h3", { class: "path-caption" }, "The path"),
      path,
      this.tools,
    );
    this.path = new PathView(path);
  }

  /** Begin to listen, or end it. */
  toggle() {
    if (this.state === "off") this.start();
    else if (this.state === "on") this.stop();
  }

  async start() {
    const way = this.way();
    if (!way) return;
    /** Distinguishes late results of a start that was stopped. */
    const start = (this.current = {});
    const isCurrent = () => this.current === start;
    this.enter("on");
    let microphone;
    try {
      this.host.hidden = false;
      this.quiet = 0;
      this.isHeard = this.isPaused = false;
      /** @type {"fine" | "late" | "drop"} */
      this.pressure = "fine";
      /** A problem after which the session continues. */
      this.problem = "";
      this.hasResumed = false;
      this.relabelled = 0;
      this.model.begin();
      this.plan(way.fields);
      this.path.running = true;
      this.status.say("Waiting for the microphone…");
      microphone = await openMicrophone(this.choice(), {
        onFrame: (frame) => isCurrent() && this.heard(frame),
        onGone: () => isCurrent() && this.stop("The microphone was unplugged."),
        onPause: (isPaused) => isCurrent() && this.paused(isPaused),
      });
      this.onMicrophone();
      if (!isCurrent()) return;
      this.microphone = microphone;
      this.socket = new ListenSession(way.fields, {
        onMessage: (message) => this.take(message),
        onEnding: (ending) => this.ended(ending),
        onLost: () => this.tell(),
        onResume: (place) => this.resumed(place),
      });
      this.tell();
    } catch (error) {
      if (!isCurrent()) return;
      this.finished();
      this.status.say(error.message, true);
    } finally {
      // It came too late, or there is no session.
      if (this.microphone !== microphone) await microphone?.stop();
    }
  }

  /**
   * Draw the path that a session plans. The session itself reports wrong fields.
   * @param {Record<string, any>} fields
   */
  async plan(fields) {
    this.components = await componentsFor(fields, true).catch(() => []);
    if (this.state === "on") this.path.show(plan(this.components));
  }

  /**
   * Stop the microphone and wait for the last text.
   * @param {string} [why]
   */
  async stop(why = "") {
    if (this.state !== "on") return;
    const { microphone, socket } = this;
    if (!socket) {
      // The browser still asks for permission.
      this.finished();
      this.status.say(why, true);
      return;
    }
    this.enter("ending");
    this.problem ||= why;
    this.status.say(`${why} Waiting for the last words…`.trim());
    try {
      await microphone?.stop();
    } finally {
      socket.close();
    }
  }

  /** @param {{bytes: ArrayBuffer, level: number}} frame */
  heard({ bytes, level }) {
    this.levelBar.style.transform = `scaleX(${Math.max(0, Math.min(1, (level + 60) / 60))})`;
    if (!this.socket) return;
    const pressure = this.socket.send(bytes);
    // Otherwise a screen reader says each change between late and drop.
    if (pressure !== "late" || this.pressure !== "drop") this.pressure = pressure;
    this.timer.textContent = clock(this.model.startS + this.socket.sentS);
    this.quiet = level < MUTED_DB ? this.quiet + 1 : 0;
    this.isHeard = true;
    this.tell();
  }

  /** @param {boolean} isPaused */
  paused(isPaused) {
    this.isPaused = isPaused;
    this.isHeard = false;
    this.tell();
  }

  /** Say how the session goes. */
  tell() {
    if (this.state === "off" || !this.socket) return;
    if (this.socket.isLost) {
      const kept = "What you say is kept.";
      this.status.say(`The connection is lost: looking for the server. ${kept}`, true);
    } else if (this.state !== "on") return;
    else if (this.isPaused) {
      const again = "If it does not go on, press Stop and then Speak again.";
      this.status.say(`The browser gives no sound from the microphone now. ${again}`, true);
    } else if (!this.socket.isReady || !this.isHeard) this.status.say("Connecting…");
    else if (this.pressure === "drop")
      this.status.say("The network is too slow: some audio is left out.", true);
    else if (this.pressure === "late")
      this.status.say("The network is slow: the text comes later.", true);
    else if (this.quiet > MUTED_FRAMES)
      this.status.say("No sound arrives. Is the microphone muted?", true);
    else if (this.problem) this.status.say(this.problem, true);
    else this.status.say(this.hasResumed ? RESUMED : "Listening.");
  }

  /** @param {{startS: number, toldS: number}} place */
  resumed(place) {
    this.model.resume(place).forEach((utterance) => this.show(utterance));
    this.problem = "";
    this.hasResumed = true;
    this.path.running = true;
    if (this.state === "ending") this.status.say("Waiting for the last words…");
    this.tell();
  }

  /** @param {Record<string, any>} message */
  take(message) {
    const utterance = this.model.take(message, this.socket.sentS);
    if (utterance) this.show(utterance);
    if (message.relabelled) {
      this.relabelled = message.relabelled.length;
      this.model.relabel(message.relabelled).forEach((one) => this.show(one));
    }
    if (message.type === "stats") {
      // Components that may still be called are outlined during speech.
      this.path.show(taken(this.components, message.stages, this.state === "on"));
    }
    if (message.type === "error")
      this.status.say((this.problem = message.error?.message ?? "The server failed."), true);
    if (this.model.lag !== null) this.lag.textContent = `${this.model.lag.toFixed(1)} s`;
    if (this.model.firmLag !== null)
      this.firmLag.textContent = `${this.model.firmLag.toFixed(1)} s`;
  }

  /** @param {import("./listen_session.js").Ending} ending */
  async ended(ending) {
    const { microphone, socket, problem } = this;
    const wasOn = this.state === "on";
    this.enter("ending");
    try {
      // The server may have ended it: the microphone is of no use any more.
      await microphone?.stop();
    } finally {
      this.finished();
    }
    const isRefused = ending.reason === "refused";
    const message = (isRefused && (await this.explainRefusal(socket.path))) || ending.message;
    // Another session may have begun meanwhile.
    if (this.state !== "off") return;
    const { relabelled } = this;
    const session = { problem, wasOn, droppedS: socket.droppedS, relabelled };
    const { text, isProblem } = told({ ...ending, message }, session);
    this.status.say(text, isProblem);
  }

  finished() {
    this.current = this.microphone = this.socket = undefined;
    this.path.running = false;
    this.levelBar.style.transform = "scaleX(0)";
    this.model.finish().forEach((utterance) => this.show(utterance));
    this.enter("off");
  }

  /** @param {"off" | "on" | "ending"} state */
  enter(state) {
    this.state = state;
    // A button that goes away must not take the keyboard's place with it.
    if (state !== "on" && this.endUtterance === document.activeElement) this.list.focus();
    this.endUtterance.hidden = state !== "on";
    // Only while it is needed: it keeps a browser from holding the page ready for a return.
    if (state === "off") removeEventListener("beforeunload", stay);
    else addEventListener("beforeunload", stay);
    this.onState(state);
  }

  /** @param {import("./live_model.js").Utterance} utterance */
  show(utterance) {
    const isAtEnd = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 40;
    const parts = this.shown.get(utterance.index) ?? this.line(utterance);
    const { item, time, text } = parts;
    time.textContent = clock(utterance.start);
    for (const [part, runs] of Object.entries(runsOf(utterance))) this.write(parts[part], runs);
    const who = speakerOf(utterance.words);
    text.classList.toggle("said", Boolean(who));
    if (who) this.speakers.tinted(text, who);
    this.speakers.show(this.model.speakers);
    item.classList.toggle("is-open", utterance.isOpen);
    item.title = utterance.isFinal
      ? `Ended ${ENDPOINTS[utterance.endpoint] ?? utterance.endpoint}`
      : "";
    // Silence between two utterances may end one that has no words.
    item.hidden = !utterance.isOpen && !(utterance.firm || utterance.tentative).trim();
    if (isAtEnd) this.list.scrollTop = this.list.scrollHeight;
  }

  /**
   * Write a part of an utterance: a screen reader says only new text.
   * @param {{element: any, pieces: any[]}} part
   * @param {import("./live_runs.js").Run[]} runs
   */
  write({ element, pieces }, runs) {
    const { kept, rest } = piecesThatStay(pieces, runs);
    pieces.splice(kept).forEach(({ nodes }) => nodes.forEach((node) => node.remove()));
    for (const run of rest) {
      const nodes = run.begins ? this.named(run) : [new Text(run.text)];
      element.append(...nodes);
      pieces.push({ ...run, nodes });
    }
  }

  /**
   * @param {import("./live_runs.js").Run} run
   * @returns {any[]} Its text behind the name of its speaker.
   */
  named({ who, text }) {
    const mark = this.speakers.tinted(this.speakers.mark(who), who);
    const space = /^\s*/u.exec(text)?.[0];
    return [new Text(space), mark, new Text(` ${text.trimStart()}`)];
  }

  /**
   * @param {import("./live_model.js").Utterance} utterance
   * @returns {any} The parts of its line.
   */
  line({ index }) {
    const part = (properties) => ({ element: el("span", properties), pieces: [] });
    const time = el("span", { class: "time" });
    const firm = part({ class: "firm", "aria-live": "polite" });
    const tentative = part({ class: "tentative" });
    const newest = part({ class: "newest" });
    const text = el("p", {}, firm.element, tentative.element, newest.element);
    const parts = { time, firm, tentative, newest, text, item: el("li", {}, time, text) };
    this.list.append(parts.item);
    this.shown.set(index, parts);
    if (!this.tools.firstChild) {
      const said = () => corrected(this.model.transcript(), { names: this.speakers.names });
      this.tools.append(downloads(said, "live", this.explain));
    }
    for (const [oldest, { item }] of this.shown) {
      if (this.shown.size <= MAX_SHOWN) break;
      item.remove();
      this.shown.delete(oldest);
    }
    return parts;
  }
}
