/** Buttons that save a transcript as a file. */

import { formatted } from "./api.js";
import { button, el } from "./dom.js";

/** What the server writes, by the ending of the file. */
const FORMATS = {
  txt: { format: "text", type: "text/plain" },
  srt: { format: "srt", type: "application/x-subrip" },
  vtt: { format: "vtt", type: "text/vtt" },
};

/**
 * @param {() => any} transcript Asked for at the press of a button.
 * @param {string} name Of the file, without its ending.
 * @param {(error: Error) => string} explain
 * @returns {HTMLElement}
 */
export function downloads(transcript, name, explain) {
  const problem = el("span", { role: "status" });
  const saving = (ending, type, write) => {
    const press = async () => {
      try {
        const blob = new Blob([await write(transcript())], { type: `${type};charset=utf-8` });
        save(blob, `${name}.${ending}`);
        problem.textContent = "";
      } catch (error) {
        problem.textContent = explain(error);
      }
    };
    return button(ending, press);
  };
  return el(
    "div",
    { class: "downloads", role: "group", "aria-label": "Download" },
    el("span", { "aria-hidden": "true" }, "Download"),
    ...Object.entries(FORMATS).map(([ending, { format, type }]) =>
      saving(ending, type, (said) => formatted(said, format)),
    ),
    saving("json", "application/json", asJson),
    problem,
  );
}

/**
 * Return all that the server said as JSON. A live session comes without its whole text.
 * @param {any} transcript
 * @returns {Promise<string>}
 */
async function asJson(transcript) {
  const text = transcript.text ?? (await formatted(transcript, "text")).trimEnd();
  return `${JSON.stringify({ text, ...transcript }, null, 2)}\n`;
}

/**
 * Save a file.
 * @param {Blob} blob
 * @param {string} name
 */
export function save(blob, name) {
  const address = URL.createObjectURL(blob);
  el("a", { href: address, download: name }).click();
  // The browser reads it after the click; a minute is long enough for any disk.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
