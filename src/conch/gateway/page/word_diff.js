/** Find the words in which two answers differ. Case and punctuation do not count. */

/** Edits beyond which two texts count as different throughout: their search would take seconds. */
const MAX_EDITS = 2000;

/**
 * Return for each word of both texts whether the other one lacks it.
 *
 * The shortest edit script by the greedy search of E. Myers, "An O(ND) Difference Algorithm and
 * Its Variations" (1986).
 * @param {string[]} a
 * @param {string[]} b
 * @returns {{a: boolean[], b: boolean[], edits: number}}
 */
export function diffWords(a, b) {
  const [left, right] = [a.map(plain), b.map(plain)];
  const shorter = Math.min(left.length, right.length);
  let head = 0;
  while (head < shorter && left[head] === right[head]) head++;
  let tail = 0;
  while (tail < shorter - head && left.at(-1 - tail) === right.at(-1 - tail)) tail++;
  const kept = common(left.slice(head, left.length - tail), right.slice(head, right.length - tail));
  const isDifferent = (words, places) =>
    words.map((_, at) => at >= head && at < words.length - tail && !places.has(at - head));
  const marks = { a: isDifferent(left, kept.a), b: isDifferent(right, kept.b) };
  // A mark alone is no word that anybody would miss.
  marks.a = marks.a.map((mark, at) => mark && left[at] !== "");
  marks.b = marks.b.map((mark, at) => mark && right[at] !== "");
  return { ...marks, edits: [...marks.a, ...marks.b].filter(Boolean).length };
}

/**
 * Return the places of a longest common subsequence.
 * @param {string[]} a
 * @param {string[]} b
 * @returns {{a: Set<number>, b: Set<number>}}
 */
function common(a, b) {
  const kept = { a: new Set(), b: new Set() };
  const rounds = [];
  let furthest = new Map([[1, 0]]);
  for (let edits = 0; edits <= Math.min(a.length + b.length, MAX_EDITS); edits++) {
    rounds.push(new Map(furthest));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      let x = startOn(furthest, diagonal, edits);
      while (x < a.length && x - diagonal < b.length && a[x] === b[x - diagonal]) x++;
      furthest.set(diagonal, x);
      if (x >= a.length && x - diagonal >= b.length) return walkedBack(rounds, a, b, kept);
    }
  }
  return kept;
}

/**
 * @param {Map<number, number>} furthest
 * @param {number} diagonal
 * @param {number} edits
 * @returns {number}
 */
function startOn(furthest, diagonal, edits) {
  const down = furthest.get(diagonal + 1) ?? -1;
  const across = (furthest.get(diagonal - 1) ?? -1) + 1;
  if (diagonal === -edits) return down;
  return diagonal === edits ? across : Math.max(down, across);
}

/**
 * @param {Map<number, number>[]} rounds
 * @param {string[]} a
 * @param {string[]} b
 * @param {{a: Set<number>, b: Set<number>}} kept
 * @returns {{a: Set<number>, b: Set<number>}}
 */
function walkedBack(rounds, a, b, kept) {
  let [x, y] = [a.length, b.length];
  for (let edits = rounds.length - 1; edits >= 0; edits--) {
    const before = rounds[edits];
    const diagonal = x - y;
    const down = before.get(diagonal + 1) ?? -1;
    const across = (before.get(diagonal - 1) ?? -1) + 1;
    const isDown = diagonal === -edits || (diagonal !== edits && down >= across);
    const start = edits === 0 ? 0 : isDown ? down : across;
    while (x > start) {
      x--;
      y--;
      kept.a.add(x);
      kept.b.add(y);
    }
    if (isDown) y = x - (diagonal + 1);
    else [x, y] = [x - 1, x - 1 - (diagonal - 1)];
  }
  return kept;
}

/**
 * @param {string} word
 * @returns {string}
 */
function plain(word) {
  return word
    .toLowerCase()
    .normalize("NFKC")
    .replace(/[^\p{L}\p{N}]/gu, "");
}
