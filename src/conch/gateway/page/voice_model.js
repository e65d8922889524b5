/** What the page says of a voice that is fitted to recordings. */

/**
 * @typedef {any} FittedVoice As `GET /v1/audio/voices/NAME` answers it.
 */

const STATUSES = { queued: "Waiting for its turn.", fitting: "Being fitted.", ready: "Ready." };

/** @param {FittedVoice} voice */
export const isRunning = ({ status }) => status === "queued" || status === "fitting";

/** @param {FittedVoice} voice */
export const canSpeak = ({ status, curve }) => status !== "failed" && curve.length > 0;

/** @param {FittedVoice} voice */
export const statusOf = ({ status, error }) => STATUSES[status] ?? `Failed: ${error}`;

/** @param {FittedVoice} voice */
export function figuresOf({ status, similarity, start_similarity, wer, seconds_left }) {
  const [left, unit] = seconds_left < 60 ? [seconds_left, "s"] : [seconds_left / 60, "min"];
  const figures = [
    similarity !== null &&
      `similarity ${similarity.toFixed(2)} (was ${start_similarity.toFixed(2)})`,
    wer !== null && `WER ${wer.toFixed(1)} %`,
    status === "fitting" && `${Math.round(left)} ${unit} left`,
  ];
  return figures.filter(Boolean).join(", ");
}

/**
 * Return the points of a curve in a picture: the last step is at its right, a similarity of 1 on top.
 * @param {[number, number][]} curve Steps and similarities.
 * @param {number} width
 * @param {number} height
 * @returns {[number, number][]}
 */
export function pointsOf(curve, width, height) {
  const last = Math.max(1, curve.at(-1)[0]);
  return curve.map(([step, similarity]) => [
    Math.round((step / last) * width),
    Math.round((1 - Math.max(0, similarity)) * height),
  ]);
}
