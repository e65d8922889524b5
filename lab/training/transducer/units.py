"""Units of the transducer, in the files that sherpa-onnx reads."""

import json
from collections.abc import Sequence
from pathlib import Path

from conch.decoding.units import Subwords
from lab.training.ctc.units import learned_subwords

SPECIAL = ("<blk>", "<unk>")
"""Units 0 and 1."""


def learned_units(texts: Sequence[str], size: int) -> str:
    """Return JSON of the package `tokenizers` for `size` units, the special ones included."""
    return str(learned_subwords(texts, size - len(SPECIAL)).to_dict()["tokenizer"])


def units_of(tokenizer: str, text: str) -> list[int]:
    """Return the units of a text, words in lower case."""
    shift = len(SPECIAL) - 1  # `Subwords` has a blank already
    return [unit + shift for unit in Subwords(tokenizer).encode(text)]


def text_of(tokenizer: str, units: Sequence[int]) -> str:
    """Return the words that units spell."""
    vocab = (*SPECIAL[1:], *Subwords(tokenizer).vocab)
    return " ".join("".join(vocab[unit] for unit in units).split())


def pieces_of(tokenizer: str) -> list[str]:
    """Return the name of each unit, the special ones first; "▁" starts a word."""
    return [*SPECIAL, *(unit.replace(" ", "▁") for unit in Subwords(tokenizer).vocab[1:])]


def write_units(tokenizer: str, folder: Path) -> None:
    """Write tokens.txt, and the bpe.vocab by which sherpa-onnx cuts hotwords into units."""
    pieces = pieces_of(tokenizer)
    tokens = "".join(f"{piece} {index}\n" for index, piece in enumerate(pieces))
    (folder / "tokens.txt").write_text(tokens)
    merges = json.loads(tokenizer)["model"]["merges"]
    ranks = {"".join(pair): rank for rank, pair in enumerate(merges)}
    scores = [-ranks.get(piece, len(ranks)) for piece in pieces]
    lines = (f"{piece}\t{score}\n" for piece, score in zip(pieces, scores, strict=True))
    (folder / "bpe.vocab").write_text("".join(lines))
