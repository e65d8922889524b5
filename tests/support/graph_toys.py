"""A lexicon and a trigram small enough to try every sentence."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from math import inf, log

import numpy as np

VOCAB = ("", " ", "a", "b", "l")
PIECES = ("", "a", "b", "l", " ", " a", " al", " ba", "ll", "ba")
"""Subwords in which words are beginnings of each other, and one opens with a space alone."""
WORDS = ("a", "ab", "aba", "all", "ball", "lab")
"""One letter, beginnings of each other, double letters."""

ARPA = """\\data\\
ngram 1=8
ngram 2=7
ngram 3=3

\\1-grams:
-99\t<s>\t-0.3
-0.9\t</s>
-0.8\ta\t-0.2
-1.1\tab\t-0.1
-1.3\taba\t-0.4
-0.7\tall\t-0.25
-1.0\tball\t-0.15
-1.2\tlab

\\2-grams:
-0.3\t<s> a\t-0.1
-0.6\t<s> all\t-0.2
-0.2\ta ball\t-0.3
-0.9\ta ab\t-0.05
-0.4\tball </s>
-0.5\tab aba\t-0.2
-0.8\tall a

\\3-grams:
-0.1\t<s> a ball
-0.6\ta ball a
-0.2\tab aba </s>

\\end\\
"""


class ToyUnits:
    """Units that write a text from left to right, the longest first."""

    stack = 1

    def __init__(self, vocab: Sequence[str]) -> None:
        """Take a vocabulary of letters, or of subwords that open words with a space."""
        self.vocab = tuple(vocab)
        self.closes_words = vocab[1:2] == (" ",)

    def cased(self, text: str) -> str:
        """Return a text as it is."""
        return text

    def encode(self, text: str) -> list[int]:
        rest = text if self.closes_words or not text else f" {text}"
        found = []
        while rest:
            best = max((unit for unit in self.vocab[1:] if rest.startswith(unit)), key=len)
            found.append(self.vocab.index(best))
            rest = rest.removeprefix(best)
        return found

    def to_dict(self) -> dict[str, str]:
        """Return nothing: no file names these units."""
        return {}


LETTERS = ToyUnits(VOCAB)
SUBWORDS = ToyUnits(PIECES)


def random_log_probs(seed: int, frames: int, units: ToyUnits = LETTERS) -> np.ndarray:
    """Return peaked log probabilities, float32 `[frames, units]`."""
    random = np.random.default_rng(seed)
    probabilities = random.dirichlet(np.full(len(units.vocab), 0.3), frames) + 1e-4
    return np.log(probabilities / probabilities.sum(1, keepdims=True)).astype(np.float32)


def every_sentence(most_words: int) -> Iterator[tuple[str, ...]]:
    """Yield all sequences of at most `longest` words."""
    for length in range(most_words + 1):
        yield from product(WORDS, repeat=length)


def am_score(log_probs: np.ndarray, sentence: Sequence[str], units: ToyUnits = LETTERS) -> float:
    """Return the log probability of the best alignment; a space at the end may be there or not."""
    text = " ".join(sentence)
    texts = [text, text + " "] if text and units.closes_words else [text]
    return max(_viterbi(log_probs, units.encode(item)) for item in texts)


def _viterbi(log_probs: np.ndarray, units: list[int]) -> float:
    places = [0]
    for unit in units:
        places += [unit, 0]
    scores = np.full(len(places), -inf)
    scores[:2] = [log_probs[0][unit] for unit in places[:2]]
    for frame in log_probs[1:]:
        before = scores.copy()
        for place, unit in enumerate(places):
            best = max(before[max(0, place - 1) : place + 1])
            if place > 1 and unit and unit != places[place - 2]:
                best = max(best, before[place - 2])
            scores[place] = best + frame[unit]
    return float(max(scores[-2:]))


def _ngrams() -> dict[tuple[str, ...], tuple[float, float]]:
    found = {}
    for line in ARPA.splitlines():
        parts = line.split("\t")
        if len(parts) > 1:
            backoff = float(parts[2]) if len(parts) > 2 else 0.0
            found[tuple(parts[1].split())] = (float(parts[0]) * log(10), backoff * log(10))
    return found


NGRAMS = _ngrams()


@cache
def lm_score(words: tuple[str, ...], history: tuple[str, ...] = ("<s>",)) -> float:
    """Return the log probability of the rest of a sentence, by the likeliest way to back off."""
    word = words[0] if words else "</s>"
    best = -inf
    if history:
        backoff = NGRAMS.get(history, (0.0, 0.0))[1]
        best = backoff + lm_score(words, history[1:])
    if (*history, word) in NGRAMS:
        own = NGRAMS[(*history, word)][0]
        best = max(best, own + (lm_score(words[1:], (*history, word)[-2:]) if words else 0.0))
    return best


def best_sentences(
    log_probs: np.ndarray,
    most_words: int,
    acoustic_scale: float,
    word_bonus: float = 0.0,
    units: ToyUnits = LETTERS,
) -> list[tuple[float, tuple[str, ...]]]:
    """Return every sentence with its score, best first."""
    found = []
    for sentence in every_sentence(most_words):
        if len(units.encode(" ".join(sentence))) > len(log_probs):
            continue
        graph = lm_score(sentence) + word_bonus * len(sentence)
        found.append((am_score(log_probs, sentence, units) + graph / acoustic_scale, sentence))
    return sorted(found, reverse=True)
