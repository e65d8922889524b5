/** Read server-sent events from text that comes in pieces. */

export class SseReader {
  constructor() {
    this.buffer = "";
  }

  /**
   * Return the JSON values of the events that are complete with this piece.
   * @param {string} piece
   * @returns {Record<string, any>[]}
   */
  push(piece) {
    this.buffer += piece;
    const events = this.buffer.split(/\r?\n\r?\n/);
    this.buffer = events.pop() ?? "";
    return events
      .map(dataOf)
      .filter(Boolean)
      .map((data) => JSON.parse(data));
  }
}

/**
 * Return the data of one event; comments, which keep connections alive, have none.
 * @param {string} event
 * @returns {string}
 */
function dataOf(event) {
  return event
    .split(/\r?\n/)
    .filter((line) => line.startsWith("data:"))
    .map((line) => line.slice(5).trimStart())
    .join("\n");
}
