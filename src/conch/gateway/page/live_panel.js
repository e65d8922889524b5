/** Show live text as it is spoken: utterance by utterance, each in the states that it has. */

import { clock, el } from "./dom.js";
import { downloads } from "./downloads.js";
import { LiveModel } from "./live_model.js";
import { ListenSocket } from "./listen_socket.js";
import { MicrophoneError, openMicrophone } from "./microphone.js";
import { plan, planned, taken } from "./path_model.js";
import { PathView } from "./path_view.js";

/** Utterances on the page; older ones stay in the downloads. */
const MAX_SHOWN = 200;
/** Decibels and seconds by which a microphone counts as muted. */
const MUTED_DB = -85;
const MUTED_FRAMES = 100;

const ENDPOINTS = {
  silence: "after a pause",
  length: "at its greatest length",
  end: "at the end",
  finalize: "by hand",
};

export class LivePanel {
  /**
   * @param {HTMLElement} host
   * @param {object} settings
   * @param {() => {fields: Record<string, any>, plan: Record<string, any>}} settings.way
   * @param {() => any} settings.microphone The chosen device and switches.
   * @param {(state: "off" | "on" | "ending") => void} settings.onState
   * @param {(refusal: string) => Promise<string>} settings.explainRefusal
   */
  constructor(host, { way, microphone, onState, explainRefusal }) {
    this.host = host;
    this.way = way;
    this.choice = microphone;
    this.onState = onState;
    this.explainRefusal = explainRefusal;
    this.state = "off";
    this.status = el("p", { class: "status", role: "status" });
    this.levelBar = el("span", { class: "level-bar" });
    this.timer = el("span", { class: "figure" }, "0:00");
    this.lag = el("span", { class: "figure" }, "–");
    this.firmLag = el("span", { class: "figure" }, "–");
    this.endUtterance = el(
      "button",
      { type: "button", on: { click: () => this.socket?.finalize() } },
      "End utterance",
    );
    this.list = el("ol", { class: "utterances", tabindex: 0, "aria-label": "What was said" });
    this.tools = el("div", { class: "answer-tools" });
    const path = el("div");
    host.append(
      el("h2", {}, "Live"),
      el(
        "div",
        { class: "live-bar" },
        el("span", { class: "level", "aria-hidden": "true" }, this.levelBar),
        this.timer,
        el(
          "span",
          { title: "Seconds of audio that were sent and are not recognised yet" },
          "lag ",
          this.lag,
        ),
        el(
          "span",
          { title: "Seconds of audio from the first sight of a word until it stays" },
          "firm after ",
          this.firmLag,
        ),
        this.endUtterance,
      ),
      this.status,
      this.list,
      el(
        "p",
        { class: "hint legend" },
        el("span", { class: "firm" }, "Firm"),
        " stays. ",
        el("span", { class: "tentative" }, "Tentative"),
        " may change. ",
        el("span", { class: "newest" }, "Newest"),
        " was just heard.",
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
    this.enter("on");
    this.host.hidden = false;
    this.model = new LiveModel();
    /** @type {Map<number, any>} Elements by utterance. */
    this.shown = new Map();
    this.list.replaceChildren();
    this.tools.replaceChildren();
    this.quiet = 0;
    /** What the server complained of, while the session goes on. */
    this.problem = "";
    const { fields, plan: options } = this.way();
    this.expected = planned(options, true);
    this.path.show(plan(this.expected));
    this.path.running = true;
    this.say("Waiting for the microphone…");
    try {
      const onGone = () => this.stop("The microphone was unplugged.");
      this.microphone = await openMicrophone(this.choice(), (frame) => this.heard(frame), onGone);
    } catch (error) {
      if (!(error instanceof MicrophoneError)) throw error;
      this.finished();
      this.say(error.message, true);
      return;
    }
    // Stop was pressed while the browser asked for permission.
    if (this.state !== "on") {
      await this.microphone.stop();
      this.finished();
      this.say("");
      return;
    }
    this.say("Connecting…");
    this.socket = new ListenSocket(fields, {
      onMessage: (message) => this.take(message),
      onEnding: (ending) => this.ended(ending),
    });
  }

  /**
   * Stop the microphone and wait for the last text.
   * @param {string} [why]
   */
  async stop(why = "") {
    if (this.state !== "on") return;
    this.enter("ending");
    this.say(`${why} Waiting for the last words…`.trim());
    await this.microphone?.stop();
    this.socket?.close();
  }

  /** @param {{bytes: ArrayBuffer, level: number}} frame */
  heard({ bytes, level }) {
    this.levelBar.style.transform = `scaleX(${Math.max(0, Math.min(1, (level + 60) / 60))})`;
    if (!this.socket) return;
    const pressure = this.socket.send(bytes);
    this.timer.textContent = clock(this.socket.sentS);
    this.quiet = level < MUTED_DB ? this.quiet + 1 : 0;
    if (this.state !== "on" || !this.socket.isReady) return;
    if (pressure === "drop") {
      this.say(
        `The network is too slow: ${this.socket.droppedS.toFixed(0)} s of audio were left out.`,
        true,
      );
    } else if (pressure === "late") this.say("The network is slow: the text comes later.", true);
    else if (this.quiet > MUTED_FRAMES)
      this.say("No sound arrives. Is the microphone muted?", true);
    else if (!this.problem) this.say("Listening.");
  }

  /** @param {Record<string, any>} message */
  take(message) {
    const utterance = this.model.take(message, this.socket.sentS);
    if (utterance) this.show(utterance);
    if (message.type === "stats") {
      // What may still come is outlined while somebody speaks.
      this.path.show(taken(message.stages, this.state === "on" ? this.expected : undefined));
    }
    if (message.type === "error")
      this.say((this.problem = message.error?.message ?? "The server failed."), true);
    if (this.model.lag !== null) this.lag.textContent = `${this.model.lag.toFixed(1)} s`;
    if (this.model.firmLag !== null)
      this.firmLag.textContent = `${this.model.firmLag.toFixed(1)} s`;
  }

  /** @param {import("./listen_socket.js").Ending} ending */
  async ended({ reason, message }) {
    this.socket = undefined;
    // The server ended it: nobody listens to the microphone any more.
    if (this.state === "on") await this.microphone?.stop();
    this.finished();
    if (reason === "end") this.say("Ended.");
    else this.say(reason === "refused" ? await this.explainRefusal(message) : message, true);
  }

  finished() {
    this.microphone = undefined;
    this.path.running = false;
    this.levelBar.style.transform = "scaleX(0)";
    this.enter("off");
    if (this.model.utterances.size) {
      this.tools.replaceChildren(downloads(() => this.model.transcript(), "live"));
    }
  }

  /** @param {"off" | "on" | "ending"} state */
  enter(state) {
    this.state = state;
    this.endUtterance.hidden = state !== "on";
    this.host.classList.toggle("is-live", state === "on");
    this.onState(state);
  }

  /** @param {import("./live_model.js").Utterance} utterance */
  show(utterance) {
    const isAtEnd = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 40;
    const parts = this.shown.get(utterance.index) ?? this.line(utterance);
    const { item, time, firm, tentative, newest } = parts;
    time.textContent = clock(utterance.start);
    // Only what was added is said aloud.
    const old = firm.textContent;
    if (utterance.firm.startsWith(old)) {
      if (utterance.firm !== old) firm.append(utterance.firm.slice(old.length));
    } else firm.textContent = utterance.firm;
    tentative.textContent = utterance.tentative;
    newest.textContent = utterance.newest;
    item.classList.toggle("is-open", utterance.isOpen);
    item.title = utterance.isFinal
      ? `Ended ${ENDPOINTS[utterance.endpoint] ?? utterance.endpoint}`
      : "";
    // Silence between two utterances may end one that has no words.
    item.hidden = !utterance.isOpen && !(utterance.firm || utterance.tentative).trim();
    if (isAtEnd) this.list.scrollTop = this.list.scrollHeight;
  }

  /**
   * @param {import("./live_model.js").Utterance} utterance
   * @returns {any} The parts of its line.
   */
  line({ index }) {
    const parts = {
      time: el("span", { class: "time" }),
      firm: el("span", { class: "firm", "aria-live": "polite" }),
      tentative: el("span", { class: "tentative" }),
      newest: el("span", { class: "newest" }),
      item: null,
    };
    parts.item = el("li", {}, parts.time, el("p", {}, parts.firm, parts.tentative, parts.newest));
    this.list.append(parts.item);
    this.shown.set(index, parts);
    for (const [oldest, { item }] of this.shown) {
      if (this.shown.size <= MAX_SHOWN) break;
      item.remove();
      this.shown.delete(oldest);
    }
    return parts;
  }

  /**
   * @param {string} text
   * @param {boolean} [isProblem]
   */
  say(text, isProblem = false) {
    if (this.status.textContent !== text) this.status.textContent = text;
    this.status.classList.toggle("is-problem", isProblem);
  }
}
