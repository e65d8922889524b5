"""Count the names that were found, and the errors beside them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from conch.language.normalize import language_model_words
from lab.names.selection import Names


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFigures:
    """Names and words of a run."""

    said: int
    """Times that a listed name is in a reference."""
    found: int
    """Of these, times that the text has it at that place."""
    invented: int
    """Times that the text has a listed word more often than the reference."""
    words: int
    """Words of the references that are no listed names."""
    errors: int
    """Of these, the words that are wrong or missing, and the words that are too many."""

    @property
    def recall(self) -> float | None:
        """Share of the names that were found."""
        return self.found / self.said if self.said else None

    @property
    def rest_wer(self) -> float | None:
        """Word error rate of the other words."""
        return self.errors / self.words if self.words else None


def name_figures(pairs: Iterable[tuple[str, str]], names: Names) -> NameFigures:
    """Return the figures of references and texts, aligned word by word.

    Args:
        pairs: Reference and text of each utterance.
        names: The hotwords.
    """
    import jiwer

    listed, said = {*names.said, *names.others}, {*names.said}
    count: Counter[str] = Counter()
    for reference, text in pairs:
        spoken, heard = language_model_words(reference), language_model_words(text)
        if not spoken:
            continue
        extra = _listed(heard, listed) - _listed(spoken, listed)
        count["invented"] += sum(extra.values())
        (chunks,) = jiwer.process_words([" ".join(spoken)], [" ".join(heard)]).alignments
        for chunk in chunks:
            if chunk.type == "insert":
                count["errors"] += chunk.hyp_end_idx - chunk.hyp_start_idx
                continue
            for word in spoken[chunk.ref_start_idx : chunk.ref_end_idx]:
                is_right = chunk.type == "equal"
                if word in said:
                    count["said"] += 1
                    count["found"] += is_right
                else:
                    count["words"] += 1
                    count["errors"] += not is_right
    fields = NameFigures.__dataclass_fields__
    return NameFigures(**{field: count[field] for field in fields})


def _listed(words: list[str], listed: set[str]) -> Counter[str]:
    return Counter(word for word in words if word in listed)
