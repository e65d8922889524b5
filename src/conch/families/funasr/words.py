"""The words that the units of a Paraformer write."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from conch.wire.result import Word

_SPACE, _GOES_ON = "▁", "@@"


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit that was found, with its times in seconds."""

    symbol: str
    start: float
    end: float
    log_prob: float


def has_spaces(tokens: Iterable[str]) -> bool:
    """Return whether the symbols of a model say where words begin."""
    return any(token.startswith(_SPACE) for token in tokens)


def words_of_units(units: Sequence[Unit], *, has_spaces: bool) -> list[Word]:
    """Return the words of a text.

    Letters of Chinese are words. A unit of others goes on with the word before if that one ends
    with `@@`, or, in a model with `has_spaces`, if it does not begin with `▁`.
    """
    found: list[list[Unit]] = []
    goes_on = False
    for unit in units:
        symbol = unit.symbol
        is_within = not symbol.startswith(_SPACE) if has_spaces else goes_on and symbol.isascii()
        goes_on = symbol.endswith(_GOES_ON)
        piece = replace(unit, symbol=symbol.removeprefix(_SPACE).removesuffix(_GOES_ON))
        if is_within and found:
            found[-1].append(piece)
        else:
            found.append([piece])
    return [_word(pieces) for pieces in found if any(piece.symbol for piece in pieces)]


def _word(pieces: Iterable[Unit]) -> Word:
    first, *others = pieces
    last = others[-1] if others else first
    log_prob = sum(piece.log_prob for piece in (first, *others)) / (1 + len(others))
    text = "".join(piece.symbol for piece in (first, *others))
    return Word(text, first.start, last.end, min(1.0, math.exp(log_prob)))
