/**
 * A live session: audio goes to `/v1/conch/listen`, and its messages come back. If its connection is lost,
 * it goes on in another one after the firm text: the gateway says from where it has to hear the
 * audio again, and leaves out the words that it has told.
 */

import { openSocket } from "./api.js";
import { pressureOf } from "./live_model.js";
import { BYTES_PER_SECOND, SAMPLE_RATE } from "./pcm.js";

/** Seconds to wait for the last text after `close`; then something is wrong. */
const END_WAIT_S = 60;
/** Seconds to look for a gateway after one was lost. */
export const LOOK_S = 60;
/** First and longest pause between two attempts, in seconds. */
const FIRST_PAUSE_S = 0.25;
const LONGEST_PAUSE_S = 2;
/** Most seconds of audio to keep; older audio is not heard again. */
export const MAX_KEPT_S = 180;
/** Seconds of kept audio that may be on their way; the gateway takes 30. */
const AHEAD_S = 20;
/** Seconds of them that may wait for the network. */
const WAITING_S = 4;
/** Codes of a close frame after which another session may continue: of a gateway that stops, or
 * that has no server. */
const AGAIN_CODES = [1001, 1013];

/**
 * @typedef {{reason: "end" | "error" | "refused" | "lost" | "late", message: string, code: number,
 *   cause?: string}} Ending
 */

/**
 * Return whether another session may continue one that ended so.
 * @param {Ending} ending
 * @returns {boolean}
 */
export function mayGoOn({ reason, code, cause }) {
  // The audio may have ended the server, and the gateway has waited for another one.
  return reason === "lost" || (AGAIN_CODES.includes(code) && cause !== "server_lost");
}

export class ListenSession {
  /**
   * @param {Record<string, any>} options Sent in the query.
   * @param {object} hooks
   * @param {(message: Record<string, any>) => void} hooks.onMessage
   * @param {(ending: Ending) => void} hooks.onEnding Called once.
   * @param {() => void} hooks.onLost The connection is gone; another one is looked for.
   * @param {(place: {startS: number, toldS: number}) => void} hooks.onResume Another session goes
   *   on: its start, and the end of the words already sent, in seconds of the one before.
   */
  constructor(options, hooks) {
    this.options = options;
    this.hooks = hooks;
    /** @type {ArrayBuffer[]} Frames from where the text is firm. */
    this.kept = [];
    /** Seconds of the present session before them, and how many of them it was sent. */
    this.startS = 0;
    this.numSent = 0;
    /** Where another session has to hear the audio again, and the end of the words that are told. */
    this.place = { from: 0, told: 0 };
    this.audioS = 0;
    /** Seconds of audio that were lost because the network was too slow. */
    this.droppedS = 0;
    this.hasHeard = this.isClosing = false;
    /** @type {{ending: Ending, at: number} | null} How and when the connection was lost. */
    this.loss = null;
    this.pauseS = FIRST_PAUSE_S;
    this.open();
  }

  open() {
    const toldS = this.place.told - this.startS;
    const query = new URLSearchParams({
      ...{ encoding: "pcm16", sample_rate: String(SAMPLE_RATE), include: "stats,resume" },
      ...{ word_timestamps: "true" },
      ...Object.fromEntries(Object.entries(this.options).map(([name, at]) => [name, String(at)])),
      ...(toldS > 0 && { told_s: toldS.toFixed(3) }),
    });
    /** Its address; over plain HTTP it says why it refuses. */
    this.path = `/v1/conch/listen?${query}`;
    this.isReady = this.isEnded = false;
    /** @type {Omit<Ending, "code"> | null} */
    this.ending = null;
    this.socket = openSocket(this.path);
    this.socket.onopen = () => this.flush();
    this.socket.onmessage = ({ data }) => this.take(JSON.parse(data));
    this.socket.onclose = (event) => this.closed(event);
  }

  get isLost() {
    return this.loss !== null && !this.isReady;
  }

  get isOpen() {
    return this.socket.readyState === WebSocket.OPEN && !this.isLost;
  }

  /** Seconds of audio that were handed to the present session. */
  get sentS() {
    return this.startS + secondsOf(this.kept.slice(0, this.numSent));
  }

  /** Seconds of audio that the network has not taken yet. */
  get waitingS() {
    return this.socket.bufferedAmount / BYTES_PER_SECOND;
  }

  /**
   * Send a frame, or drop it if too many wait.
   * @param {ArrayBuffer} frame
   * @returns {"fine" | "late" | "drop"}
   */
  send(frame) {
    if (this.isClosing) return "fine";
    const isBehind = !this.isOpen || this.numSent < this.kept.length;
    const pressure = isBehind ? "fine" : pressureOf(this.waitingS);
    if (pressure === "drop") {
      this.droppedS += secondsOf([frame]);
      return pressure;
    }
    this.kept.push(frame);
    if (isBehind) this.flush();
    else this.sendNext();
    this.forget(this.startS + secondsOf(this.kept) - MAX_KEPT_S);
    return pressure;
  }

  sendNext() {
    this.socket.send(this.kept[this.numSent]);
    this.numSent += 1;
  }

  /** End the utterance now. */
  finalize() {
    if (this.isOpen) this.socket.send('{"type":"finalize"}');
  }

  /** Ask for the last text; `onEnding` follows. */
  close() {
    this.isClosing = true;
    this.flush();
    // A connection that is still to open has no longer either.
    if (!this.isLost) this.waitForEnd();
  }

  /** Send the kept audio that was not sent, as far as the gateway takes it. */
  flush() {
    if (!this.isOpen) return;
    const hasRoom = () => this.waitingS < WAITING_S && this.sentS - this.audioS < AHEAD_S;
    while (this.numSent < this.kept.length && hasRoom()) this.sendNext();
    if (this.isClosing && !this.isEnded && this.numSent === this.kept.length) {
      this.isEnded = true;
      this.socket.send('{"type":"close"}');
      this.waitForEnd();
    }
  }

  waitForEnd() {
    const { socket } = this;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.ending ??= { reason: "late", message: "The last text did not come." };
      socket.close();
    }, END_WAIT_S * 1000);
  }

  /**
   * Keep no frames that end before a time; those that were not sent are kept in any case.
   * @param {number} seconds On the clock of the present session.
   */
  forget(seconds) {
    while (this.kept.length) {
      const end = this.startS + secondsOf([this.kept[0]]);
      if (end > seconds || (!this.numSent && secondsOf(this.kept) <= MAX_KEPT_S)) break;
      this.kept.shift();
      this.startS = end;
      this.numSent = Math.max(0, this.numSent - 1);
    }
  }

  /** @param {Record<string, any>} message */
  take(message) {
    if (message.type === "resume") {
      this.place = { from: message.from, told: message.told };
      this.forget(message.from);
      return;
    }
    if (message.type === "ready") {
      this.isReady = true;
      if (this.loss) this.resumed();
    }
    if (message.type === "end") this.ending = { reason: "end", message: "" };
    if (message.type === "error") {
      const said = message.error?.message ?? "The server failed.";
      this.ending = { reason: "error", message: said, cause: message.error?.code };
    }
    if (message.audio_s > 0) {
      this.audioS = message.audio_s;
      this.hasHeard = true;
      this.loss = null;
      this.pauseS = FIRST_PAUSE_S;
    }
    this.hooks.onMessage(message);
    this.flush();
  }

  /** Go on in the session that has opened. */
  resumed() {
    const { startS, place } = this;
    this.hooks.onResume({ startS, toldS: Math.max(startS, place.told) });
    this.place = { from: 0, told: Math.max(0, place.told - startS) };
    this.startS = this.audioS = 0;
  }

  /** @param {CloseEvent} event */
  closed({ code, reason }) {
    clearTimeout(this.timer);
    const message = reason || "The connection ended before the last text came.";
    const kind = this.isReady ? "lost" : "refused";
    /** @type {Ending} */
    const ending = { ...(this.ending ?? { reason: kind, message }), code };
    const isAsked = this.isClosing && ending.reason === "end";
    if (isAsked || !this.isAgain(ending)) {
      this.hooks.onEnding(isAsked ? ending : (this.loss?.ending ?? ending));
      return;
    }
    this.loss ??= { ending, at: Date.now() };
    this.isReady = false;
    this.forget(this.place.from);
    this.numSent = 0;
    this.hooks.onLost();
    setTimeout(() => this.open(), this.pauseS * 1000);
    this.pauseS = Math.min(LONGEST_PAUSE_S, 2 * this.pauseS);
  }

  /**
   * Return whether another session is looked for.
   * @param {Ending} ending
   * @returns {boolean}
   */
  isAgain(ending) {
    if (this.loss === null) return this.hasHeard && mayGoOn(ending);
    const isInTime = Date.now() - this.loss.at < LOOK_S * 1000;
    return isInTime && (ending.reason === "refused" || mayGoOn(ending));
  }
}

/**
 * @param {ArrayBuffer[]} frames
 * @returns {number}
 */
function secondsOf(frames) {
  return frames.reduce((sum, frame) => sum + frame.byteLength, 0) / BYTES_PER_SECOND;
}
