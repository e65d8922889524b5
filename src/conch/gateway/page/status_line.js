/** The status line of a panel; a screen reader says each change. */

import { el } from "./dom.js";

export class StatusLine {
  constructor() {
    this.element = el("p", { class: "status", role: "status" });
  }

  /**
   * @param {string} text
   * @param {boolean} [isProblem]
   */
  say(text, isProblem = false) {
    // The same text is not written again, as it would be said again.
    if (this.element.textContent !== text) this.element.textContent = text;
    this.element.classList.toggle("is-problem", isProblem);
  }
}
