"""Numbers that were read digit by digit, and whose text has commas at the pauses.

A recogniser that writes digits itself may have written some of them: `seven, 739`, `3.14, 159`.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from conch.language import ONES

_DIGITS = {word: at % 10 for at, word in enumerate((*ONES[:10], *"0123456789"))}
_DIGITS |= {"oh": 0, "o": 0}
_CODE = re.compile(
    rf"""
    (?P<o>oh?) | (?P<w>{"|".join(ONES[:10])}) | (?P<p>point)
    | (?P<d>[0-9]) | (?P<t>[0-9]{{2}}) | (?P<x>(?:1[5-9]|20)[0-9]{{2}}) | (?P<i>[0-9]+)
    | (?P<f>[0-9]+\.[0-9]+)
    | (?P<n>and|or)
    | (?P<e>again|as|at|but|by|for|from|in|is|now|on|please|then|to|was|with)
    """,
    re.VERBOSE,
)
"""A word and its letter in a run: `oh`, another digit, the point; numerals of one, two and more
digits, but years; decimals; what a list goes on with; what does not name what is counted."""
_RUN = re.compile(r"((?:[wd] )+p |f,)?([wdti](?:[ ,][owdti])*)([ ,.])(?!p)")
"""A run of digits, perhaps behind a decimal point; `oh` begins none, as it is an exclamation."""
_LEAST_ALONE = 4
"""Digits that are one number although each has a comma behind it; fewer may be a list."""


def followed_in_numbers(tokens: Sequence[tuple[str, str, str]], others: frozenset[str]) -> set[int]:
    """Return the places of the tokens behind which a number with commas goes on.

    Digits are one number if no comma is between some of them, as in `seven, seven three nine`. Many
    digits are one, too, if they neither only rise nor only fall, and if neither another number nor
    what they count follows. Tokens are words with the punctuation before and behind them, `others`
    the words of other numbers.
    """
    codes: list[str] = []
    words = [word.lower() for _, word, _ in tokens]
    for word, (before, _, behind) in zip(words, tokens, strict=True):
        if before and codes:
            codes[-1] = f"{codes[-1][0]}."
        known = _CODE.fullmatch(word)
        code = known.lastgroup if known else "n" if word.split("-")[0] in others else "-"
        codes.append(f"{code}{behind or ' '}" if behind in ("", ",") else f"{code}.")
    # Two characters for each token.
    line = "".join(codes)
    followed: set[int] = set()
    for run in _RUN.finditer(line):
        first, last = run.start() // 2, run.end(2) // 2
        read = words[run.start(2) // 2 : last + 1]
        if _is_number(run, line[run.end() : run.end() + 1], read):
            followed.update(range(first, last))
    return followed


def _is_number(run: re.Match[str], after: str, words: Sequence[str]) -> bool:
    """Return whether a run of words is one number; `after` is the code of the next word."""
    before, read, end = run.groups("")
    groups = read.split(",")
    if "," not in before + read:
        return False
    # Those before a decimal point have no comma.
    if any("w w" in group for group in groups[before.endswith("p ") :]):
        return True
    if after == "n" and end != ".":
        return False
    # Behind `two, three, two, five` may stand what is counted.
    if end == " " and after not in ("", "e"):
        return False
    if re.search("[ti]", read):
        return bool(before or (read[0] == "w" and "t" not in read))
    pairs = [*pairwise(_DIGITS[word] for word in words)]
    is_list = all(one < two for one, two in pairs) or all(one > two for one, two in pairs)
    return len(groups) + (before == "f,") >= _LEAST_ALONE and not is_list
