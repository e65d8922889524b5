/** Which options a request sends, from what stands in a form. */

/**
 * @typedef {{name: string, kind: string, default: any, low: number | null, high: number | null,
 *   choices: string[] | null, help: string, decoders: string[], live: boolean,
 *   recordings: boolean}} Option An item of `/v1/options`.
 */

/**
 * Return the options to send: those that are not at their default and that the path takes. An
 * option that is not sent is left to the server, as other options may change its default.
 * @param {Option[]} options
 * @param {Record<string, any>} values What stands in the form, by option.
 * @param {string | undefined} decoder
 * @param {boolean} isLive
 * @returns {Record<string, any>}
 */
export function fieldsOf(options, values, decoder, isLive) {
  const sent = options
    .filter((option) => isFor(option, isLive) && isFollowed(option, decoder, isLive))
    .map((option) => [option.name, valueOf(option, values[option.name])])
    .filter(([, value]) => value !== undefined);
  return Object.fromEntries(sent);
}

/**
 * @param {Option} option
 * @param {boolean} isLive
 * @returns {boolean}
 */
export function isFor(option, isLive) {
  return isLive ? option.live : option.recordings;
}

/**
 * Return whether one of the passes uses an option. Before Whisper's, live audio has one with CTC.
 * @param {Option} option
 * @param {string} [decoder]
 * @param {boolean} [isLive]
 * @returns {boolean}
 */
export function isFollowed(option, decoder = "attention", isLive = false) {
  if (!option.decoders?.length || option.decoders.includes(decoder)) return true;
  return isLive && decoder === "attention" && option.name !== "attention_rescore";
}

/**
 * Return the value to send, or undefined for the default.
 * @param {Option} option
 * @param {any} value
 * @returns {any}
 */
function valueOf(option, value) {
  if (value === undefined) return undefined;
  const isNumber = option.kind === "int" || option.kind === "float";
  const read = isNumber && value !== "" && Number.isFinite(Number(value)) ? Number(value) : value;
  if (typeof read === "string" && read.trim() === "") return undefined;
  return read === option.default || String(read) === String(option.default) ? undefined : read;
}
