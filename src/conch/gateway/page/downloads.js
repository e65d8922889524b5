/** Buttons that save a transcript as a file. */

import { el } from "./dom.js";
import { FORMATS } from "./formats.js";

/**
 * @param {() => any} transcript Asked for at the press of a button.
 * @param {string} name Of the file, without its ending.
 * @returns {HTMLElement}
 */
export function downloads(transcript, name) {
  const buttons = Object.entries(FORMATS).map(([ending, { write, type }]) =>
    el(
      "button",
      { type: "button", on: { click: () => save(write(transcript()), `${name}.${ending}`, type) } },
      ending,
    ),
  );
  return el(
    "div",
    { class: "downloads", role: "group", "aria-label": "Download" },
    el("span", { "aria-hidden": "true" }, "Download"),
    ...buttons,
  );
}

/**
 * @param {string} text
 * @param {string} name
 * @param {string} type
 */
function save(text, name, type) {
  const address = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  el("a", { href: address, download: name }).click();
  // The browser reads it after the click; a minute is long enough for any disk.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
