/**
 * A live session that outlives its connection: another one continues after the firm text.
 *
 * The server says from where it has to hear the audio again; the page keeps it from there.
 */

import { ListenSocket } from "./listen_socket.js";
import { BYTES_PER_SECOND } from "./pcm.js";

/** Seconds to look for a server after one was lost. */
export const LOOK_S = 60;
/** First and longest pause between two attempts, in seconds. */
const FIRST_PAUSE_S = 0.25;
const LONGEST_PAUSE_S = 2;
/** Most seconds of audio to keep; older audio is not heard again. */
export const MAX_KEPT_S = 180;
/** Seconds of audio that may be on their way; the server takes 30. */
const AHEAD_S = 20;
/** Seconds of them that may wait for the network. */
const WAITING_S = 4;
/** Codes of a close frame after which another session may continue: of a gateway that stops, or
 * that has no server. */
const AGAIN_CODES = [1001, 1013];

/**
 * Return whether another session may continue one that ended so.
 * @param {import("./listen_socket.js").Ending} ending
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
   * @param {(ending: import("./listen_socket.js").Ending) => void} hooks.onEnding Called once.
   * @param {() => void} hooks.onLost The connection is gone; another one is looked for.
   * @param {(place: {startS: number, toldS: number}) => void} hooks.onResume Another session goes
   *   on: its start, and the end of the words already sent, in seconds of the one before.
   * @param {(options: Record<string, any>, hooks: any) => any} [connect]
   */
  constructor(options, hooks, connect = (all, own) => new ListenSocket(all, own)) {
    this.options = options;
    this.hooks = hooks;
    this.connect = connect;
    /** @type {ArrayBuffer[]} Frames from where the text is firm. */
    this.kept = [];
    /** Bytes of the present session before them, and how many of them it was sent. */
    this.keptFrom = 0;
    this.numSent = 0;
    /** Start of another session, and the end of the words already sent, in seconds. */
    this.place = { from: 0, told: 0 };
    this.audioS = 0;
    this.droppedBefore = 0;
    this.hasHeard = false;
    this.isClosing = false;
    /** @type {number | null} When the server was lost, in milliseconds. */
    this.lostAt = null;
    this.pauseS = FIRST_PAUSE_S;
    this.open(0);
  }

  /** @param {number} toldS Seconds at the beginning whose words were sent already. */
  open(toldS) {
    const told = toldS > 0 ? { told_s: toldS.toFixed(3) } : {};
    this.socket = this.connect(
      { ...this.options, ...told },
      {
        onMessage: (/** @type {any} */ message) => this.take(message),
        onEnding: (/** @type {any} */ ending) => this.ended(ending),
      },
    );
  }

  get path() {
    return this.socket.path;
  }

  get isReady() {
    return this.socket.isReady;
  }

  get isLost() {
    return this.lostAt !== null && !this.socket.isReady;
  }

  /** Seconds of audio that were handed to the present session. */
  get sentS() {
    return this.socket.sentS;
  }

  /** Seconds of audio that were lost because the network was too slow. */
  get droppedS() {
    return this.droppedBefore + this.socket.droppedS;
  }

  /**
   * Send a frame, or drop it if too many wait.
   * @param {ArrayBuffer} frame
   * @returns {"fine" | "late" | "drop"}
   */
  send(frame) {
    if (this.isClosing) return "fine";
    const isBehind = this.isLost || this.numSent < this.kept.length;
    const pressure = isBehind ? "late" : this.socket.send(frame);
    if (pressure === "drop") return pressure;
    this.kept.push(frame);
    if (isBehind) this.flush();
    else this.numSent += 1;
    this.forget(this.keptS - MAX_KEPT_S + this.keptFrom / BYTES_PER_SECOND);
    return isBehind ? "fine" : pressure;
  }

  get keptS() {
    return this.kept.reduce((sum, frame) => sum + frame.byteLength, 0) / BYTES_PER_SECOND;
  }

  /** End the utterance now. */
  finalize() {
    this.socket.finalize();
  }

  /** Ask for the last text; `onEnding` follows. */
  close() {
    this.isClosing = true;
    this.flush();
  }

  /** Send the kept audio that was not sent, as far as the server takes it. */
  flush() {
    if (this.isLost) return;
    const { socket } = this;
    while (
      this.numSent < this.kept.length &&
      socket.waitingS < WAITING_S &&
      socket.sentS - this.audioS < AHEAD_S
    ) {
      socket.send(this.kept[this.numSent]);
      this.numSent += 1;
    }
    if (this.isClosing && this.numSent === this.kept.length) socket.close();
  }

  /**
   * Keep no frames that end before a time; those that were not sent are kept in any case.
   * @param {number} seconds On the clock of the present session.
   */
  forget(seconds) {
    let count = 0;
    let from = this.keptFrom;
    while (count < this.kept.length) {
      const end = from + this.kept[count].byteLength;
      const isOld = end / BYTES_PER_SECOND <= seconds;
      if (!isOld || (count >= this.numSent && this.keptS <= MAX_KEPT_S)) break;
      from = end;
      count += 1;
    }
    this.kept.splice(0, count);
    this.keptFrom = from;
    this.numSent = Math.max(0, this.numSent - count);
  }

  /** @param {Record<string, any>} message */
  take(message) {
    if (message.type === "resume") {
      this.place = { from: message.from, told: message.told };
      this.forget(message.from);
      return;
    }
    if (message.type === "ready" && this.lostAt !== null) this.resumed();
    if (typeof message.audio_s === "number") {
      this.audioS = message.audio_s;
      if (message.audio_s > 0) {
        this.hasHeard = true;
        this.lostAt = null;
        this.pauseS = FIRST_PAUSE_S;
      }
    }
    this.hooks.onMessage(message);
    this.flush();
  }

  /** Go on in the session that has opened. */
  resumed() {
    const startS = this.startS;
    const { told } = this.place;
    this.hooks.onResume({ startS, toldS: Math.max(startS, told) });
    this.place = { from: 0, told: Math.max(0, told - startS) };
    this.keptFrom = this.numSent = this.audioS = 0;
  }

  /** Where another session begins, in seconds of the present one. */
  get startS() {
    return this.keptFrom / BYTES_PER_SECOND;
  }

  /** @param {import("./listen_socket.js").Ending} ending */
  ended(ending) {
    const isFirst = this.lostAt === null;
    const isAsked = this.isClosing && ending.reason === "end";
    const isAgain = isFirst ? this.hasHeard && mayGoOn(ending) : this.isRetried(ending);
    if (isAsked || !isAgain) {
      this.hooks.onEnding(isFirst || isAsked ? ending : (this.loss ?? ending));
      return;
    }
    if (isFirst) {
      this.loss = ending;
      this.lostAt = Date.now();
    }
    this.droppedBefore += this.socket.droppedS;
    this.socket = LOST;
    this.hooks.onLost();
    const pauseS = this.pauseS;
    this.pauseS = Math.min(LONGEST_PAUSE_S, 2 * pauseS);
    this.forget(this.place.from);
    setTimeout(() => this.open(this.place.told - this.startS), pauseS * 1000);
  }

  /**
   * Return whether another attempt is made.
   * @param {import("./listen_socket.js").Ending} ending
   * @returns {boolean}
   */
  isRetried(ending) {
    const isInTime = Date.now() - (this.lostAt ?? 0) < LOOK_S * 1000;
    return isInTime && (ending.reason === "refused" || mayGoOn(ending));
  }
}

/** What stands in for a socket while there is none. */
const LOST = {
  ...{ path: "", isReady: false, sentS: 0, droppedS: 0, waitingS: 0 },
  send: () => "late",
  finalize: () => {},
  close: () => {},
};
