"""The CTC search by enumeration, in plain Python."""

import math
from collections import defaultdict
from itertools import groupby, product

import torch

VOCAB = ("", " ", "a", "b", "c")


def random_log_probs(seed: int, frames: int, vocab=VOCAB, sharpness: float = 2.0):
    """Return float64 `[frames, len(vocab)]`."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(frames, len(vocab), dtype=torch.float64, generator=generator)
    return (logits * sharpness).log_softmax(1)


def text_scores(log_probs, vocab=VOCAB) -> dict[str, float]:
    """Return the log of the summed probabilities of every text's paths."""
    found: dict[str, float] = defaultdict(float)
    rows = log_probs.tolist()
    for path in product(range(len(vocab)), repeat=len(rows)):
        units = [unit for unit, _ in groupby(path) if unit]
        text = " ".join("".join(vocab[unit] for unit in units).split())
        found[text] += math.exp(sum(row[unit] for row, unit in zip(rows, path, strict=True)))
    return {text: math.log(value) for text, value in found.items()}


def beam_search(log_probs, vocab=VOCAB, size: int = 10) -> list[tuple[str, float]]:
    """Return the texts and scores of a prefix beam search, best first, prefix by prefix.

    The same search as `conch.decoding.beam.BeamSearch`, without n-gram.
    """
    # For each prefix, the paths that end in a blank and those that end in its last unit.
    beam: dict[tuple[int, ...], list[float]] = {(): [0.0, -math.inf]}
    for row in log_probs.tolist():
        grown: dict[tuple[int, ...], list[float]] = defaultdict(lambda: [-math.inf, -math.inf])

        def add(prefix, part, score, grown=grown):
            grown[prefix][part] = log_sum(grown[prefix][part], score)

        for prefix, (blank, unit) in beam.items():
            total = log_sum(blank, unit)
            last = prefix[-1] if prefix else None
            add(prefix, 0, total + row[0])
            for new, log_prob in enumerate(row[1:], start=1):
                if vocab[new] == " " and last in (None, new):
                    add(prefix, 1, total + log_prob)  # a space too many is no other text
                elif new == last:
                    add(prefix, 1, unit + log_prob)
                    add((*prefix, new), 1, blank + log_prob)
                else:
                    add((*prefix, new), 1, total + log_prob)
        parts = sorted(((score, key) for key in grown for score in grown[key]), reverse=True)[:size]
        worst = parts[-1][0]
        beam = {
            key: [score if score >= worst else -math.inf for score in grown[key]]
            for score, key in parts
            if score > -math.inf
        }
    found: dict[str, float] = defaultdict(lambda: -math.inf)
    for prefix, pair in beam.items():
        text = " ".join("".join(vocab[index] for index in prefix).split())
        found[text] = log_sum(found[text], log_sum(*pair))
    return sorted(found.items(), key=lambda item: -item[1])


def log_sum(one: float, other: float) -> float:
    """Return the logarithm of the sum of two probabilities."""
    larger = max(one, other)
    if larger == -math.inf:
        return larger
    return larger + math.log1p(math.exp(min(one, other) - larger))
