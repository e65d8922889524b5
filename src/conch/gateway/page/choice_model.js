/** Which options a request sends, from what stands in a form. */

/**
 * @typedef {{name: string, kind: string, default: any, default_in_words: string,
 *   low: number | null, high: number | null, choices: string[] | null, help: string,
 *   decoders: string[], live_decoders: string[], by_accuracy: boolean, live: boolean,
 *   recordings: boolean}} Option An item of `/v1/options`.
 */

/**
 * Return the options to send: those that the user chose and that the path takes. An option that is
 * not sent is left to the server, as other options may change its default.
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
 * Return whether one of the passes uses an option.
 * @param {Option} option
 * @param {string} [decoder]
 * @param {boolean} [isLive]
 * @returns {boolean}
 */
export function isFollowed(option, decoder = "attention", isLive = false) {
  const takers = isLive ? option.live_decoders : option.decoders;
  return !takers.length || takers.includes(decoder);
}

/**
 * @param {Option} option
 * @returns {boolean}
 */
export function isNumber(option) {
  return (option.kind === "int" || option.kind === "float") && !option.choices?.length;
}

/**
 * Return whether a form shows three states of a switch: as the accuracy says, on and off.
 * @param {Option} option
 * @returns {boolean}
 */
export function hasThreeStates(option) {
  return option.by_accuracy && option.kind === "bool";
}

/**
 * Return in a few words how a request is recognised.
 * @param {string} title Of the model.
 * @param {Record<string, any>} fields Those that are sent.
 * @returns {string}
 */
export function inWords(title, { model, accuracy = "fast", ...others }) {
  const rest = Object.entries(others).map(([name, value]) => `${name}=${value}`);
  return [title, accuracy, ...rest].join(" · ");
}

/**
 * Return the value to send, or undefined for the default.
 * @param {Option} option
 * @param {any} value
 * @returns {any}
 */
function valueOf(option, value) {
  if (value === undefined || String(value).trim() === "") return undefined;
  if (hasThreeStates(option)) return value === "true";
  const mayBeNumber = option.kind === "int" || option.kind === "float";
  const read = mayBeNumber && Number.isFinite(Number(value)) ? Number(value) : value;
  // The field of a number is empty until the user fills it.
  if (isNumber(option)) return read;
  return String(read) === String(option.default) ? undefined : read;
}
