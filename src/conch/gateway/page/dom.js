/** Make elements. Text goes in as text nodes only: what a server says is never read as markup. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @typedef {Node | string | null | false | undefined} Child
 */

/**
 * Return an HTML element.
 * @param {string} tag
 * @param {Record<string, any>} [properties] `class`, `on` (listeners by event) and attributes;
 *   false and null leave an attribute out, true writes it empty.
 * @param {...Child} children
 * @returns {any}
 */
export function el(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/**
 * Return a button.
 * @param {string} text
 * @param {() => void} press
 * @param {Record<string, any>} [properties]
 * @returns {HTMLButtonElement}
 */
export function button(text, press, properties = {}) {
  return el("button", { type: "button", ...properties, on: { click: press } }, text);
}

/**
 * Return an SVG element.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...Child} children
 * @returns {any}
 */
export function svg(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

/**
 * @param {Element} element
 * @param {Record<string, any>} properties
 * @param {Child[]} children
 * @returns {Element}
 */
function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value))
        element.addEventListener(event, listener);
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

/**
 * Return the element with an id, which the page has.
 * @param {string} id
 * @returns {any}
 */
export function byId(id) {
  return document.getElementById(id);
}

/**
 * Return seconds as a clock: 0:07, 12:30, 1:02:03.
 * @param {number} seconds
 * @returns {string}
 */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (number) => String(number).padStart(2, "0");
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes}:${two(whole % 60)}`;
  return `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(whole % 60)}`;
}

/**
 * Have the browser ask before the page is left.
 * @param {Event} event
 */
export function stay(event) {
  event.preventDefault();
  // Older browsers look at this alone.
  event.returnValue = true;
}

let made = 0;

/**
 * Return an id that no other element has.
 * @param {string} name
 * @returns {string}
 */
export function freshId(name) {
  made += 1;
  return `${name}-${made}`;
}
