/** Ask the gateway over HTTP, with the key of this tab. */

import { SseReader } from "./sse.js";

const KEY = "conch-key";
/** Characters of a value in a query: no component is needed for the words of a longer one. */
const MAX_VALUE = 1000;
const UNREADABLE =
  "The file cannot be read: it is a folder, or it was changed or moved since it was chosen. " +
  "Choose it again.";

/** An error that the gateway answers with. */
export class ApiError extends Error {
  /**
   * @param {number} status HTTP status; 0 without an answer.
   * @param {{message?: string, param?: string | null}} error
   * @param {string | null} [retryAfter] Seconds.
   */
  constructor(status, error, retryAfter = null) {
    const said = error.message || `the server answered with status ${status}`;
    super(retryAfter ? `${said.replace(/\.$/, "")}. Try again in ${retryAfter} s.` : said);
    this.status = status;
    /** The field that is wrong. */
    this.param = error.param ?? "";
  }
}

/** The key of this page, where the browser keeps nothing for sites. */
let kept = "";

/** @returns {string} The key of this tab, or nothing. */
export function key() {
  try {
    return sessionStorage.getItem(KEY) ?? kept;
  } catch {
    return kept;
  }
}

/** @param {string} value */
export function keepKey(value) {
  kept = value;
  try {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  } catch {
    // It is asked for again when the page is loaded again.
  }
}

/**
 * Return the JSON at a path.
 * @param {string} path
 * @param {RequestInit} [settings]
 * @returns {Promise<any>}
 * @throws {ApiError} No answer, or an error.
 */
export async function fetchJson(path, settings) {
  return parsed(await asked(path, settings));
}

/**
 * Return all components, each with the option for which a request needs it.
 * @param {Record<string, any>} fields Those of the request.
 * @param {boolean} isLive
 * @returns {Promise<import("./path_model.js").Component[]>}
 * @throws {ApiError} No answer, or the fields contradict each other.
 */
export async function componentsFor(fields, isLive) {
  const short = Object.entries(fields).filter(([, value]) => String(value).length <= MAX_VALUE);
  const query = new URLSearchParams({ ...Object.fromEntries(short), live: isLive });
  return (await fetchJson(`/v1/components?${query}`)).components;
}

/**
 * Return a transcript in another format.
 * @param {any} transcript
 * @param {string} format
 * @returns {Promise<string>}
 * @throws {ApiError} No answer, or an error.
 */
export function formatted(transcript, format) {
  return asked("/v1/format", { method: "POST", body: JSON.stringify({ format, transcript }) });
}

/**
 * Return the audio of a text.
 * @param {Record<string, any>} fields Those of the request.
 * @returns {Promise<Blob>}
 * @throws {ApiError} No answer, or an error.
 */
export async function speech(fields) {
  return (await answered("/v1/audio/speech", { method: "POST", body: JSON.stringify(fields) }))
    .blob()
    .catch(unanswered);
}

/**
 * Return a WebSocket, with the key of this tab.
 * @param {string} path
 * @returns {WebSocket}
 */
export function openSocket(path) {
  const address = new URL(path, location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  // A browser cannot send headers with a WebSocket.
  const protocols = key() ? ["conch", `openai-insecure-api-key.${key()}`] : ["conch"];
  const socket = new WebSocket(address, protocols);
  socket.binaryType = "arraybuffer";
  return socket;
}

/**
 * @param {string} path
 * @param {RequestInit} [settings]
 * @returns {Promise<string>} The answer's text.
 * @throws {ApiError} No answer, or an error.
 */
async function asked(path, settings) {
  return (await answered(path, settings)).text().catch(unanswered);
}

/**
 * @param {string} path
 * @param {RequestInit} [settings]
 * @returns {Promise<Response>}
 * @throws {ApiError} No answer, or an error.
 */
async function answered(path, settings) {
  const headers = key() ? { Authorization: `Bearer ${key()}` } : {};
  const answer = await fetch(path, { headers, ...settings }).catch(unanswered);
  if (answer.ok) return answer;
  const text = await answer.text().catch(unanswered);
  throw errorOf(answer.status, text, answer.headers.get("Retry-After"));
}

/** @returns {never} */
function unanswered() {
  throw new ApiError(0, { message: "The server does not answer." });
}

/**
 * Transcribe a file.
 *
 * By XMLHttpRequest, as fetch does not tell how much has been uploaded.
 * @param {File} file
 * @param {Record<string, any>} fields Form fields without the file.
 * @param {object} [hooks]
 * @param {(share: number) => void} [hooks.onUpload] Share of the file that was sent, in [0, 1].
 * @param {(event: any) => void} [hooks.onEvent] An event of a streamed answer.
 * @param {AbortSignal} [hooks.signal]
 * @returns {Promise<any>} The answer, or the last transcript of a streamed one.
 * @throws {ApiError} An error, in mid-stream too, or the file cannot be read.
 * @throws {DOMException} AbortError: cancelled.
 */
export function transcribe(file, fields, { onUpload, onEvent, signal } = {}) {
  const form = new FormData();
  // Fields before the file: the server may check them before it has all of the audio.
  for (const [name, value] of Object.entries(fields)) form.append(name, String(value));
  form.append("file", file, file.name || "audio");
  const request = new XMLHttpRequest();
  const reader = new SseReader();
  let read = 0;
  let last = null;
  return new Promise((resolve, reject) => {
    const isStream = () =>
      request.getResponseHeader("Content-Type")?.startsWith("text/event-stream");
    const fail = (error) => {
      reject(error);
      request.abort();
    };
    // What a listener throws would settle nothing.
    const guarded = (listener) => () => {
      try {
        listener();
      } catch (error) {
        fail(error);
      }
    };
    const readOn = () => {
      if (request.status !== 200 || !isStream()) return;
      const piece = request.responseText.slice(read);
      read += piece.length;
      for (const event of reader.push(piece)) {
        if (event.error) return fail(new ApiError(request.status, event.error));
        last = event.transcript ?? last;
        onEvent?.(event);
        if (event.type === "transcript.done") resolve(event.transcript);
      }
    };
    request.open("POST", "/v1/audio/transcriptions");
    if (key()) request.setRequestHeader("Authorization", `Bearer ${key()}`);
    request.upload.onprogress = (event) => {
      if (event.lengthComputable) onUpload?.(event.loaded / event.total);
    };
    request.upload.onload = () => onUpload?.(1);
    request.onprogress = guarded(readOn);
    request.onload = guarded(() => {
      const { status, responseText } = request;
      if (status !== 200) {
        reject(errorOf(status, responseText, request.getResponseHeader("Retry-After")));
      } else if (isStream()) {
        readOn();
        // Has no effect if the last event came.
        reject(new ApiError(0, { message: "The answer ended before its last part." }));
      } else {
        resolve(parsed(responseText));
      }
    });
    request.onerror = async () => {
      const broken = last ? "The connection broke in mid-answer." : "The server does not answer.";
      // A file that cannot be read breaks a request in the same way.
      const message = await file
        .slice(0, 1)
        .arrayBuffer()
        .then(
          () => broken,
          () => UNREADABLE,
        );
      reject(new ApiError(0, { message }));
    };
    request.onabort = () => reject(new DOMException("cancelled", "AbortError"));
    signal?.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

/**
 * @param {number} status
 * @param {string} text
 * @param {string | null} retryAfter
 * @returns {ApiError}
 */
function errorOf(status, text, retryAfter) {
  try {
    return new ApiError(status, JSON.parse(text).error ?? {}, retryAfter);
  } catch {
    // A proxy in between answers in its own way.
    return new ApiError(status, {}, retryAfter);
  }
}

/**
 * @param {string} text
 * @returns {any}
 * @throws {ApiError} A proxy in between has answered.
 */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new ApiError(0, { message: "What answers at this address is not Conch's server." });
  }
}
