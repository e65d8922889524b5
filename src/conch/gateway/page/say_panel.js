/** Read a text aloud: sound from its first sentence on, and the word that is heard is marked. */

import { componentsFor, fetchJson, openSocket, speech } from "./api.js";
import { button, el, freshId } from "./dom.js";
import { save } from "./downloads.js";
import { plan, taken } from "./path_model.js";
import { PathView } from "./path_view.js";
import { Schedule } from "./schedule.js";
import { StatusLine } from "./status_line.js";
import { VoicePanel } from "./voice_panel.js";

/** Seconds of audio that the page has before it sends no more text, and characters of a piece. */
const AHEAD_S = 30;
const PIECE = 500;
/** Milliseconds between two looks at the clock: a short word lasts a tenth of a second. */
const LOOK_MS = 40;
const SAMPLE = "This is how the voice sounds.";

export class SayPanel {
  /**
   * @param {HTMLElement} host
   * @param {object} settings
   * @param {(error: Error) => string} settings.explain
   * @param {(path: string) => Promise<string>} settings.explainRefusal Why it refuses at a path.
   * @param {() => any} settings.microphone The chosen device and switches.
   */
  constructor(host, { explain, explainRefusal, microphone }) {
    this.explain = explain;
    this.explainRefusal = explainRefusal;
    const [text, voice, speed] = ["text", "voice", "speed"].map(freshId);
    this.text = el("textarea", { id: text, rows: 4, placeholder: "Type or paste a text" });
    this.voice = el("select", { id: voice, on: { change: () => this.choose() } });
    const shown = el("output", { for: speed, class: "figure" }, "1.0");
    const show = () => (shown.textContent = Number(this.speed.value).toFixed(1));
    const range = { type: "range", min: 0.5, max: 2, step: 0.1, value: 1 };
    this.speed = el("input", { id: speed, ...range, on: { input: show } });
    this.button = button("Read aloud", () => this.toggle());
    this.status = new StatusLine();
    const listen = (name) => this.listen(name);
    this.voices = new VoicePanel({ list: this.voice, listen, microphone, explain });
    this.said = el("p", { class: "transcript" });
    const path = el("div");
    host.append(
      el("h2", {}, el("label", { for: text }, "Read a text aloud")),
      this.text,
      el(
        "div",
        { class: "answer-tools" },
        this.button,
        el("label", { for: voice }, "Voice ", this.voice),
        el("label", { for: speed }, "Speed ", this.speed, " ", shown),
        button("Save as mp3", () => this.save()),
      ),
      this.voices.element,
      this.status.element,
      this.said,
      path,
    );
    this.path = new PathView(path, { ends: ["text", "audio"] });
    /** Until they are loaded a text is read all the same, by the server's voice. */
    this.components = [];
  }

  /** Load the voices. */
  async load() {
    const { voices, fitted } = await fetchJson("/v1/audio/voices");
    const names = new Set(fitted?.map(({ name }) => name));
    const served = voices.filter(({ id }) => !names.has(id));
    const options = served.map(({ id, description }) =>
      el("option", { value: id }, description ? `${id}: ${description}` : id),
    );
    this.voice.replaceChildren(...options);
    this.voices.load(fitted);
    await this.choose();
  }

  /** Ask for the components of the chosen voice. */
  async choose() {
    this.components = await componentsFor({ voice: this.voice.value }, false);
  }

  /**
   * Choose a voice, and read by it.
   * @param {string} voice
   */
  listen(voice) {
    if (this.socket) this.finish("Stopped.");
    this.voice.value = voice;
    if (!this.text.value.trim()) this.text.value = SAMPLE;
    this.choose();
    this.start();
  }

  /** @returns {Record<string, string>} */
  get fields() {
    const { voice, speed } = this;
    return { ...(voice.value && { voice: voice.value }), speed: speed.value };
  }

  toggle() {
    if (this.socket) this.finish("Stopped.");
    else if (this.text.value.trim()) this.start();
    else this.text.focus();
  }

  start() {
    const query = new URLSearchParams({ ...this.fields, timestamps: "true" });
    const path = `/v1/conch/speak?${query}`;
    this.began = performance.now();
    this.left = this.text.value;
    this.schedule = new Schedule();
    this.hasEnded = false;
    /** @type {{start: number, end: number, element: HTMLElement}[]} */
    this.words = [];
    this.said.replaceChildren();
    this.button.textContent = "Be quiet";
    this.status.say("Waiting for the first sound…");
    this.path.show(plan(this.components));
    const socket = (this.socket = openSocket(path));
    socket.onmessage = ({ data }) => this.socket === socket && this.take(data);
    socket.onclose = async () => {
      if (this.socket !== socket || this.hasEnded) return;
      const why = this.context ? "" : await this.explainRefusal(path);
      this.finish(why || "The connection is lost.", true);
    };
    this.timer = setInterval(() => this.look(), LOOK_MS);
  }

  /** @param {string | ArrayBuffer} data */
  take(data) {
    if (typeof data !== "string") return this.play(new Int16Array(data));
    const message = JSON.parse(data);
    if (message.type === "ready") {
      // At the rate of the audio: resampled piece by piece it would click.
      this.context = new AudioContext({ sampleRate: message.sample_rate });
    }
    if (message.type === "sentence") this.show(message.words);
    if (message.type === "flushed") {
      this.path.show(taken(this.components, message.stages));
      this.warning = message.warnings[0] ?? "";
    }
    if (message.type === "end") this.hasEnded = true;
    if (message.type === "error") this.finish(message.error.message, true);
  }

  /** @param {Int16Array} samples */
  play(samples) {
    const { context, schedule } = this;
    if (!schedule.length) {
      const ms = Math.round(performance.now() - this.began);
      this.status.say(`The first sound came after ${ms} ms.`);
    }
    const buffer = context.createBuffer(1, samples.length, context.sampleRate);
    const floats = buffer.getChannelData(0);
    samples.forEach((sample, place) => (floats[place] = sample / 32768));
    const source = new AudioBufferSourceNode(context, { buffer });
    source.connect(context.destination);
    source.start(schedule.add(buffer.duration, context.currentTime));
  }

  /** @param {{text: string, start: number, end: number}[]} words */
  show(words) {
    for (const { text, start, end } of words) {
      const element = el("span", { class: "word" }, text);
      this.words.push({ start, end, element });
      this.said.append(element, " ");
    }
  }

  /** Send text if little audio is left, mark the word that is heard, and note the end. */
  look() {
    const { socket, context, schedule } = this;
    const now = context ? context.currentTime - (context.outputLatency || 0) : 0;
    if (socket.readyState === WebSocket.OPEN && this.left && schedule.end - now < AHEAD_S) {
      const text = this.left.slice(0, PIECE);
      this.left = this.left.slice(PIECE);
      socket.send(JSON.stringify({ type: "text", text }));
      if (!this.left) socket.send('{"type":"close"}');
    }
    const place = schedule.placeAt(now);
    for (const { start, end, element } of this.words) {
      element.classList.toggle("is-playing", start <= place && place < end);
    }
    if (this.hasEnded && place >= schedule.length) this.finish(this.warning || "Done.");
  }

  /**
   * @param {string} said
   * @param {boolean} [isProblem]
   */
  finish(said, isProblem = false) {
    clearInterval(this.timer);
    this.socket.close();
    this.context?.close();
    this.socket = this.context = undefined;
    this.words.forEach(({ element }) => element.classList.remove("is-playing"));
    this.button.textContent = "Read aloud";
    this.status.say(said, isProblem);
  }

  /** Save the text as a file. */
  async save() {
    const fields = { ...this.fields, speed: Number(this.speed.value), input: this.text.value };
    try {
      save(await speech(fields), "speech.mp3");
    } catch (error) {
      this.status.say(this.explain(error), true);
    }
  }
}
