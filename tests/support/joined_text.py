"""How a text that was joined of two streams differs from that of one stream."""

import difflib
import re


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


def assert_joined(joined: str, whole: str, most_changed: int = 3) -> None:
    """Check that no word is lost and at most one is doubled.

    A recogniser that begins anew hears some words otherwise: a few may be changed, and one of them
    be split or joined.
    """
    one, other = words_of(whole), words_of(joined)
    changed = doubled = lost = 0
    for kind, start, end, from_, to in difflib.SequenceMatcher(
        None, one, other, autojunk=False
    ).get_opcodes():
        if kind == "replace":
            changed += max(end - start, to - from_)
        doubled += (to - from_) * (kind == "insert")
        lost += (end - start) * (kind == "delete")
    assert lost == 0, (joined, whole)
    assert doubled <= 1, (joined, whole)
    assert changed <= most_changed, (joined, whole)
