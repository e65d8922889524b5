/** A live session: audio goes to `/v1/listen`, and its messages come back. */

import { openSocket } from "./api.js";
import { pressureOf } from "./live_model.js";
import { BYTES_PER_SECOND, SAMPLE_RATE } from "./pcm.js";

/** Seconds to wait for the last text after `close`; then something is wrong. */
const END_WAIT_S = 60;

/**
 * @typedef {{reason: "end" | "error" | "refused" | "lost" | "late", message: string, code: number,
 *   cause?: string}} Ending
 */

export class ListenSocket {
  /**
   * @param {Record<string, any>} options Sent in the query.
   * @param {object} hooks
   * @param {(message: Record<string, any>) => void} hooks.onMessage
   * @param {(ending: Ending) => void} hooks.onEnding Called once.
   */
  constructor(options, { onMessage, onEnding }) {
    const query = new URLSearchParams({
      ...{ encoding: "pcm16", sample_rate: String(SAMPLE_RATE), include: "stats,resume" },
      ...{ word_timestamps: "true" },
      ...Object.fromEntries(Object.entries(options).map(([name, value]) => [name, String(value)])),
    });
    /** Its address; over plain HTTP it says why it refuses. */
    this.path = `/v1/listen?${query}`;
    this.sentBytes = 0;
    this.droppedBytes = 0;
    this.isReady = false;
    this.isClosing = false;
    /** @type {ArrayBuffer[]} Frames from before the connection was there. */
    this.early = [];
    /** @type {Omit<Ending, "code"> | null} */
    this.ending = null;
    this.onEnding = onEnding;
    this.socket = openSocket(this.path);
    this.socket.onopen = () => {
      this.early.splice(0).forEach((frame) => this.socket.send(frame));
      if (this.isClosing) this.sendClose();
    };
    this.socket.onmessage = ({ data }) => this.take(JSON.parse(data), onMessage);
    this.socket.onclose = (event) => this.closed(event);
  }

  /** Seconds of audio that were handed to the connection. */
  get sentS() {
    return this.sentBytes / BYTES_PER_SECOND;
  }

  /** Seconds of audio that were lost because the network was too slow. */
  get droppedS() {
    return this.droppedBytes / BYTES_PER_SECOND;
  }

  /** Seconds of audio that the network has not taken yet. */
  get waitingS() {
    const early = this.early.reduce((sum, one) => sum + one.byteLength, 0);
    const isEarly = this.socket.readyState === WebSocket.CONNECTING;
    return (isEarly ? early : this.socket.bufferedAmount) / BYTES_PER_SECOND;
  }

  /**
   * Send a frame, or drop it if too many wait.
   * @param {ArrayBuffer} frame
   * @returns {"fine" | "late" | "drop"}
   */
  send(frame) {
    if (this.isClosing || this.socket.readyState > WebSocket.OPEN) return "fine";
    const pressure = pressureOf(this.waitingS);
    if (pressure === "drop") {
      this.droppedBytes += frame.byteLength;
      return pressure;
    }
    if (this.socket.readyState === WebSocket.CONNECTING) this.early.push(frame);
    else this.socket.send(frame);
    this.sentBytes += frame.byteLength;
    return pressure;
  }

  /** End the utterance now. */
  finalize() {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send('{"type":"finalize"}');
  }

  /** Ask for the last text; `onEnding` follows. */
  close() {
    if (this.isClosing) return;
    this.isClosing = true;
    // A connection that is still to open has no longer either.
    this.timer = setTimeout(() => {
      this.ending ??= { reason: "late", message: "The last text did not come." };
      this.socket.close();
    }, END_WAIT_S * 1000);
    if (this.socket.readyState === WebSocket.OPEN) this.sendClose();
  }

  sendClose() {
    this.socket.send('{"type":"close"}');
  }

  /**
   * @param {Record<string, any>} message
   * @param {(message: Record<string, any>) => void} onMessage
   */
  take(message, onMessage) {
    if (message.type === "ready") this.isReady = true;
    if (message.type === "end") this.ending = { reason: "end", message: "" };
    if (message.type === "error") {
      const said = message.error?.message ?? "The server failed.";
      this.ending = { reason: "error", message: said, cause: message.error?.code };
    }
    onMessage(message);
  }

  /** @param {CloseEvent} event */
  closed(event) {
    clearTimeout(this.timer);
    const lost = event.reason || "The connection ended before the last text came.";
    const reason = this.isReady ? "lost" : "refused";
    this.onEnding({ ...(this.ending ?? { reason, message: lost }), code: event.code });
  }
}
