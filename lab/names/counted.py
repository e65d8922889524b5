"""Count names that were found, names that were not said, and the errors of all other words."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import astuple, dataclass

from conch.scoring.error_rates import ENGLISH_WORDS


@dataclass(frozen=True, slots=True)
class NameCounts:
    names: int = 0
    """Listed names in the reference."""
    correct: int = 0
    """Those that the text has in their places."""
    other_words: int = 0
    """Words of the reference that are not listed."""
    other_errors: int = 0
    """Word errors that are not about a listed name of the reference."""
    invented: int = 0
    """Listed names in the text beyond those of the reference."""

    @property
    def recall(self) -> float | None:
        return round(self.correct / self.names, 6) if self.names else None

    @property
    def other_wer(self) -> float | None:
        return round(self.other_errors / self.other_words, 6) if self.other_words else None


def counts(reference: str, text: str, listed: Collection[str]) -> NameCounts:
    """Return the counts of a text by its alignment with the reference, both normalised.

    A name is found where the alignment has the very word. An extra word next to a name that was
    missed belongs to that error, not to the rest: `for lock` in place of `verloc` is no word more.
    """
    import jiwer

    said, recognised = (
        ENGLISH_WORDS.normalized(reference).split(),
        ENGLISH_WORDS.normalized(text).split(),
    )
    if not said:
        return NameCounts(invented=_invented(said, recognised, listed))
    output = jiwer.process_words(" ".join(said), " ".join(recognised))
    correct = errors = 0
    is_missed = [False] * (len(said) + 2)  # one more on each side
    extra: Counter[int] = Counter()
    for chunk in output.alignments[0]:
        indices = range(chunk.ref_start_idx, chunk.ref_end_idx)
        if chunk.type == "insert":
            extra[chunk.ref_start_idx] += chunk.hyp_end_idx - chunk.hyp_start_idx
        elif chunk.type == "equal":
            correct += sum(said[index] in listed for index in indices)
        else:
            for index in indices:
                is_missed[index + 1] = said[index] in listed
                errors += said[index] not in listed
    # Extra words before the word of a place are next to it and to the one before.
    errors += sum(
        number for index, number in extra.items() if not (is_missed[index] or is_missed[index + 1])
    )
    names = sum(word in listed for word in said)
    return NameCounts(
        names, correct, len(said) - names, errors, _invented(said, recognised, listed)
    )


def total(items: Iterable[NameCounts]) -> NameCounts:
    return NameCounts(*map(sum, zip(astuple(NameCounts()), *map(astuple, items), strict=True)))


def _invented(said: list[str], recognised: list[str], listed: Collection[str]) -> int:
    more = Counter(word for word in recognised if word in listed)
    return (more - Counter(said)).total()
