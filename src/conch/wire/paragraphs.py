"""Cut what one person says into paragraphs: at pauses, and at sentences where they grow long."""

from collections.abc import Iterable

from conch.wire.joining import joined_text
from conch.wire.result import Segment
from conch.wire.sentences import sentences
from conch.wire.subtitles import CLOSING, SENTENCE_ENDS, columns

PAUSE_S = 3.0
"""Seconds; a pause as long ends a paragraph."""
FULL = 400
"""Columns after which the next sentence begins another one; fewer do where there is a pause."""
LONGEST = 900
"""Columns after which another one begins though no sentence has ended."""


def paragraphs(segments: Iterable[Segment]) -> list[str]:
    """Return the texts of segments, in order of time, as paragraphs."""
    made: list[list[str]] = []
    length, end = 0, 0.0
    for segment in segments:
        text, pause_s = segment.text, segment.start - end
        for piece in sentences(text, len(text), len(text)):
            if not made or _is_complete(made[-1][-1], length, pause_s):
                made.append([])
                length = 0
            made[-1].append(text[piece])
            length, pause_s = length + columns(text[piece]), 0.0
        end = segment.end
    return [joined_text(pieces) for pieces in made]


def _is_complete(text: str, length: int, pause_s: float) -> bool:
    """Return whether a paragraph is complete that ends with a text before a pause."""
    if pause_s >= PAUSE_S or length >= LONGEST:
        return True
    is_sentence = text.rstrip(CLOSING).endswith(SENTENCE_ENDS)
    return is_sentence and length >= FULL * (1 - pause_s / PAUSE_S)
