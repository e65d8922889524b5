"""Numbers that were read digit by digit, and whose text has commas at the pauses."""

import re
from collections.abc import Sequence
from itertools import pairwise

from conch.language.normalize import ONES

_CODES = {word: str(digit) for digit, word in enumerate(ONES[:10])}
_CODES |= {"oh": "o", "o": "o", "point": "p", "and": "n", "or": "n"}
_RUN = re.compile(r"(?:(?:[0-9] )+p )?([0-9](?:[ ,][0-9o])*)([ ,.])(?!p)")
"""A run of digits, perhaps behind a decimal point; `oh` begins none, as it is an exclamation."""
_LEAST_ALONE = 4
"""Digits that are one number although each has a comma behind it; fewer may be a list."""


def commas_in_numbers(tokens: Sequence[tuple[str, str, str]], others: frozenset[str]) -> set[int]:
    """Return the places of the tokens whose comma is a pause within a number.

    Digits are one number if no comma is between some of them, as in `seven, seven three nine`, or
    if they are many and neither count nor go on to another number. Tokens are words with the
    punctuation before and behind them, `others` the words of other numbers.
    """
    codes: list[str] = []
    for before, word, behind in tokens:
        if before and codes:
            codes[-1] = f"{codes[-1][0]}."
        first = word.lower().split("-")[0]
        code = _CODES.get(word.lower()) or ("n" if first in others else "x")
        codes.append(code + (behind or " " if behind in ("", ",") else "."))
    # Two characters for each token.
    line = "".join(codes)
    found: set[int] = set()
    for run in _RUN.finditer(line):
        start, read = run.start(1), run[1].replace("o", "0")
        groups = read.split(",")
        steps = {int(two) - int(one) for one, two in pairwise(re.sub("[ ,]", "", read))}
        counts = len(steps) == 1 and steps != {0}
        is_list = counts or (run[2] == "," and line.startswith("n", run.end()))
        # Those before a decimal point have no comma.
        has_pair = any(" " in group for group in groups[start > run.start() :])
        if has_pair or (len(groups) >= _LEAST_ALONE and not is_list):
            found.update((start + at) // 2 for at, char in enumerate(read) if char == ",")
    return found
