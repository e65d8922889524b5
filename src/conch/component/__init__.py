"""Building blocks of component models: rows in, outputs out. Knows no Triton.

`conch.triton.requests.respond` calls a component.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from conch.wire.errors import AudioError, InvalidRequestError, OptionError
from conch.wire.limits import MAX_TEXT, MAX_TEXTS

Array = NDArray[Any]
FloatArray = NDArray[np.float32]
DoubleArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
SAMPLE_RATE = 16_000
"""Samples per second of every waveform that a component takes."""
VAD_FRAME_SAMPLES = 512
"""Samples per speech probability: 32 ms, the frame of Silero VAD."""
VAD_STATE_SIZE = 320
"""Values of the VAD's memory: h and c of Silero's LSTM, 128 each, and the last 64 samples."""
Outputs = Mapping[str, Array]
"""Output tensors by name, without the batch dimension."""
Span = tuple[int, int, int, int]
"""Start and end in the old text, start and end in the new one, in Unicode characters."""


def log_softmax(logits: FloatArray) -> FloatArray:
    """Return log probabilities `[N, units]` of logits, float32 `[N, units]`."""
    shifted: FloatArray = logits - logits.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


@dataclass(frozen=True, slots=True)
class Row:
    """One row of one request to a component, without the batch dimension."""

    inputs: Mapping[str, Array]
    """Input tensors by name, without optional inputs that were not sent."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Request parameters: bool, int or str."""
    stream_id: int | str = 0
    """Id of the stream that the row belongs to; 0 or "" outside streams."""
    starts: bool = False
    ends: bool = False

    def texts(self, name: str, most: int = MAX_TEXTS, longest: int = MAX_TEXT) -> list[str]:
        """Return a BYTES input as strings: at most `most`, each of at most `longest` bytes."""
        items = self.inputs[name].ravel()
        if len(items) > most:
            raise InvalidRequestError(
                f"input '{name}' takes at most {most} texts; sent: {len(items)}"
            )
        if (most_bytes := max(map(len, items), default=0)) > longest:
            raise InvalidRequestError(
                f"input '{name}' takes texts of at most {longest} bytes; sent: {most_bytes}"
            )
        return [item.decode() if isinstance(item, bytes) else str(item) for item in items]

    def waveform(self, max_s: float) -> FloatArray:
        """Return the input `waveform`, float32 `[samples]`, of at most `max_s` seconds."""
        waveform: FloatArray = self.inputs["waveform"].ravel()
        if len(waveform) > max_s * SAMPLE_RATE:
            raise AudioError(
                f"input 'waveform' takes at most {max_s:g} s of audio; "
                f"sent: {len(waveform) / SAMPLE_RATE:g} s"
            )
        return waveform

    def segment(self, max_s: float) -> FloatArray:
        """Return the input `waveform` of an encoder: finite, not empty, at most `max_s` seconds."""
        waveform: FloatArray = self.inputs["waveform"].ravel()
        if not 0 < len(waveform) <= max_s * SAMPLE_RATE:
            raise AudioError(
                f"the encoder takes more than 0 and at most {max_s:g} s of audio; "
                f"sent: {len(waveform) / SAMPLE_RATE:g} s"
            )
        if not np.isfinite(waveform).all():
            raise AudioError("input 'waveform' has samples that are NaN or infinite")
        return waveform


def count_of(parameters: Mapping[str, Any], name: str, default: int, most: int) -> int:
    """Return a request parameter that is an integer from 1 to `most`."""
    value = parameters.get(name, default)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not 1 <= value <= most:
        raise OptionError(f"option '{name}' takes an integer from 1 to {most}; sent: {value!r:.80}")
    return int(value)


class ComponentModel(Protocol):
    """Answers each row of a batch, in order, with outputs or with an error of that row.

    A component that keeps no streams may raise the error of a row instead; see `answers`. An error
    that is not a `TranscriptionError` is a defect, which the server logs.
    """

    def __call__(self, rows: Sequence[Row], /) -> Sequence[Outputs | Exception]: ...


class RowByRow(ABC):
    def __call__(self, rows: Sequence[Row], /) -> list[Outputs]:
        """Return the outputs of rows; the first error is that of all."""
        return [self.answer(row) for row in rows]

    @abstractmethod
    def answer(self, row: Row, /) -> Outputs:
        """Return the outputs of a row."""


def answers(component: ComponentModel, rows: Sequence[Row]) -> Sequence[Outputs | Exception]:
    """Return a component's answers to a batch; a row that it refuses fails alone."""
    try:
        return component(rows)
    except Exception as error:
        if len(rows) == 1 or rows[0].stream_id:
            # The stream may have taken its chunk, and must not get it twice.
            return [error] * len(rows)
        return [answers(component, [row])[0] for row in rows]


def unit(vectors: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, np.float32(1e-9)))


def bytes_array(texts: Sequence[str]) -> Array:
    """Return strings as a 1-D array for a BYTES tensor."""
    return np.array([text.encode() for text in texts], dtype=np.object_)


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
