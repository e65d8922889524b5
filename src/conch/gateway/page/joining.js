/**
 * Join texts as their script wants, by the rule of `conch.wire.joining`: Chinese, Japanese, Thai,
 * Lao, Burmese and Khmer put no space between words.
 */

const UNSPACED =
  /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\u2e80-\u312f\u3190-\ua4cf\uaa60-\uaa7f\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff9f\u{1b000}-\u{1b16f}\u{20000}-\u{3ffff}]/u;
/** Wide punctuation, whose glyphs hold the space beside them. */
const OWN_SPACE =
  /[\u3000-\u3003\u3008-\u3011\u3014-\u301f\u3030\u30fb\ufe30-\ufe4f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff3d\uff3f\uff5b-\uff65]/u;
/** Vowels of Thai and Lao that are written behind their consonant, small kana, and marks. */
const BEGINS_NONE =
  /[\u0e2f\u0e30\u0e32\u0e33\u0e45\u0eaf\u0eb0\u0eb2\u0eb3ぁぃぅぇぉっゃゅょゎゕゖァィゥェォッャュョヮヵヶ\u31f0-\u31ff\p{M}\p{Lm}]/u;
/** Vowels of Thai and Lao that are written before their consonant, and signs that stack two. */
const ENDS_NONE = /[\u0e40-\u0e44\u0ec0-\u0ec4\u1039\u17d2]/u;
const NO_LETTER = /[\p{P}\p{M}\p{Cf}]/u;
const IN_WORD = /[\p{L}\p{M}\p{N}]/u;

/**
 * Return texts as one; those that are empty are left out.
 * @param {string[]} texts
 * @returns {string}
 */
export function joinedText(texts) {
  const parts = texts.filter(Boolean);
  return parts.map((text, at) => (at ? separator(parts[at - 1], text) : "") + text).join("");
}

/**
 * Return what stands between two texts: a space, or nothing.
 * @param {string} before
 * @param {string} after
 * @returns {string}
 */
export function separator(before, after) {
  const [ends, begins] = [[...before].reverse(), [...after]];
  if (!ends.length || !begins.length) return "";
  if (OWN_SPACE.test(ends[0]) || OWN_SPACE.test(begins[0])) return "";
  return isUnspaced(ends) && isUnspaced(begins) ? "" : " ";
}

/**
 * Return what stands before each word in a text: a space, or nothing.
 * @param {string} text
 * @param {string[]} words
 * @returns {string[]}
 */
export function separators(text, words) {
  const found = [];
  let place = 0;
  for (const word of words) {
    const start = place + (/^\s*/u.exec(text.slice(place))?.[0].length ?? 0);
    if (!word || !text.startsWith(word, start)) {
      return words.map((one, at) => (at ? separator(words[at - 1], one) : ""));
    }
    found.push(start > place && place ? " " : "");
    place = start + word.length;
  }
  return found;
}

/**
 * Return whether two characters stay on one line, where each character may begin one.
 * @param {string} before
 * @param {string} after
 * @returns {boolean}
 */
export function isWithinSyllable(before, after) {
  // What follows a full stop begins anew, whatever it is.
  return (IN_WORD.test(before) && BEGINS_NONE.test(after)) || ENDS_NONE.test(before);
}

/**
 * Return whether the first character that is no punctuation is of a script without spaces.
 * @param {string[]} chars
 * @returns {boolean}
 */
export function isUnspaced(chars) {
  const first = chars.find((char) => UNSPACED.test(char) || !NO_LETTER.test(char));
  return first !== undefined && UNSPACED.test(first);
}
