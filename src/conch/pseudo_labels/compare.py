"""The texts of two recognisers for a recording or a segment of it, and how far they agree."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from conch.scoring.error_rates import Scoring, language_of, word_errors
from conch.wire.result import Segment, Transcript

Side = Literal["a", "b"]

_NO_SEGMENT = Segment(0.0, 0.0, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPair:
    start: float
    """Seconds of the recording."""
    end: float
    text_a: str
    text_b: str
    language: str
    """Code of the language whose normaliser both texts pass."""
    characters: int
    """Characters of the first text after the normaliser, without spaces."""
    errors: int
    """Edit distance of the second text from it, in characters."""

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def cer(self) -> float:
        """Errors by characters, may be above 1; against no text, any text has 1."""
        return self.errors / self.characters if self.characters else float(self.errors > 0)

    def text(self, side: Side) -> str:
        return self.text_a if side == "a" else self.text_b

    def is_kept(self, max_cer: float) -> bool:
        return self.characters > 0 and bool(self.text_b) and self.cer <= max_cer


def whole(a: Transcript, b: Transcript, language: str = "") -> TextPair:
    """Return both texts of a recording; an empty `language` is the transcripts', else English."""
    spoken = language_of(language, a.language, b.language)
    return _stretch(0.0, a.duration, a.text, b.text, spoken)


def by_segment(a: Transcript, b: Transcript, language: str = "") -> list[TextPair]:
    """Return the texts of two recognisers for each segment, in order of time.

    A segment that only one of them has gets an empty text from the other. An empty `language` takes
    that of the segment, else of the transcripts, else English.
    """
    spans_a, spans_b = _by_span(a.segments), _by_span(b.segments)
    pairs = []
    for span in sorted({*spans_a, *spans_b}):
        one, other = spans_a.get(span, _NO_SEGMENT), spans_b.get(span, _NO_SEGMENT)
        spoken = language_of(language, one.language, other.language, a.language, b.language)
        pairs.append(_stretch(*span, one.text, other.text, spoken))
    return pairs


def _by_span(segments: Sequence[Segment]) -> dict[tuple[float, float], Segment]:
    return {(round(item.start, 2), round(item.end, 2)): item for item in segments}


def _stretch(start: float, end: float, text_a: str, text_b: str, language: str) -> TextPair:
    scoring = Scoring.of("cer", language)
    # A line of a manifest holds no tab or line end.
    text_a, text_b = " ".join(text_a.split()), " ".join(text_b.split())
    counts = word_errors(text_a, text_b, scoring)
    # Without a reference nothing is counted, and then any text is an error.
    errors = counts.errors if counts.words else len(scoring.tokens(text_b))
    return TextPair(
        start=start,
        end=end,
        text_a=text_a,
        text_b=text_b,
        language=language,
        characters=counts.words,
        errors=errors,
    )
