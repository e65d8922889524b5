"""What a component returns that rewrites a text: the new one, and what has become what."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from conch.component.row import Outputs, bytes_array

Span = tuple[int, int, int, int]
"""Start and end in the old text, start and end in the new one, in Unicode characters."""


class TextEdit(NamedTuple):
    """A stretch of a text, in Unicode characters, and the text that replaces it."""

    start: int
    end: int
    text: str


def changed(text: str, changes: Iterable[TextEdit]) -> tuple[str, list[Span]]:
    """Return a text after changes, which are in order, and the span of each."""
    pieces: list[str] = []
    spans: list[Span] = []
    at = length = 0
    for start, end, new in changes:
        length += start - at
        pieces += [text[at:start], new]
        spans.append((start, end, length, length + len(new)))
        at, length = end, length + len(new)
    return "".join([*pieces, text[at:]]), spans


def text_step_outputs(text: str, spans: Sequence[Span]) -> Outputs:
    """Return the outputs of a text step; component_models/README.md has their contract."""
    return {"text": bytes_array([text]), "spans": np.array(spans, np.int32).reshape(-1, 4)}
