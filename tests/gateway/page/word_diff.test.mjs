// Which words the page marks when it compares two answers.

import assert from "node:assert/strict";
import { test } from "node:test";

import { diffWords } from "../../../src/conch/gateway/page/word_diff.js";

function marked(a, b) {
  const [left, right] = [a.split(" ").filter(Boolean), b.split(" ").filter(Boolean)];
  const marks = diffWords(left, right);
  return [left.filter((_, at) => marks.a[at]), right.filter((_, at) => marks.b[at])];
}

/** Length of the longest common subsequence, by the plain table. */
function commonLength(a, b) {
  const table = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
  a.forEach((one, x) =>
    b.forEach((other, y) => {
      table[x + 1][y + 1] =
        one === other ? table[x][y] + 1 : Math.max(table[x][y + 1], table[x + 1][y]);
    }),
  );
  return table[a.length][b.length];
}

test("case and punctuation are no difference", () => {
  assert.deepEqual(marked("Hello, World!", "hello world"), [[], []]);
});

test("words that were replaced, added and left out are marked", () => {
  assert.deepEqual(marked("the cat sat", "the hat sat"), [["cat"], ["hat"]]);
  assert.deepEqual(marked("a b c", "a b x c"), [[], ["x"]]);
  assert.deepEqual(marked("one two three", "two three"), [["one"], []]);
  assert.deepEqual(marked("", "all new"), [[], ["all", "new"]]);
});

test("a mark alone is no difference", () => {
  assert.deepEqual(marked("yes - no", "yes no"), [[], []]);
});

test("umlauts and other scripts are letters", () => {
  assert.deepEqual(marked("schön", "schon"), [["schön"], ["schon"]]);
  assert.deepEqual(marked("да нет", "да нет"), [[], []]);
});

test("as few words are marked as can be", () => {
  let state = 7;
  const next = (below) => {
    state = (state * 16807) % 2147483647;
    return state % below;
  };
  for (let round = 0; round < 300; round++) {
    const words = () => Array.from({ length: next(12) }, () => "abc"[next(3)]);
    const [a, b] = [words(), words()];
    const marks = diffWords(a, b);
    const [left, right] = [a.filter((_, at) => !marks.a[at]), b.filter((_, at) => !marks.b[at])];
    assert.deepEqual(left, right, `${a} | ${b}`);
    assert.equal(left.length, commonLength(a, b), `${a} | ${b}`);
    assert.equal(marks.edits, a.length + b.length - 2 * left.length);
  }
});

test("texts without anything in common are marked throughout, without a long search", () => {
  const [a, b] = ["x", "y"].map((one) => Array.from({ length: 6000 }, (_, at) => `${one}${at}`));
  assert.equal(diffWords(a, b).edits, 12000);
});
