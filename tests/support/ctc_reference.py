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


def hotword_score(text: str, weights: dict[str, float]) -> float:
    """Return what hotwords add to a complete text: their weight for every occurrence."""
    words = text.split()
    total = 0.0
    for phrase, weight in weights.items():
        wanted = phrase.split()
        starts = range(len(words) - len(wanted) + 1)
        total += weight * sum(words[at : at + len(wanted)] == wanted for at in starts)
    return total


def hotword_pending(text: str, weights: dict[str, float]) -> float:
    """Return what hotwords add to a text that goes on: also the largest share of a match."""
    done = text.rpartition(" ")[0]
    starts = [0, *(at + 1 for at, letter in enumerate(text) if letter == " ")]
    shares = [
        weight * len(text[start:]) / len(phrase)
        for phrase, weight in weights.items()
        for start in starts
        if text[start:] and phrase.startswith(text[start:])
    ]
    return hotword_score(done, weights) + max(shares, default=0.0)
