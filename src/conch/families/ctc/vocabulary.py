"""The output units of an exported CTC model, read without the model.

An .onnx file is a message of Protocol Buffers. ONNX Runtime would load the weights too: 25 MB in
each process that only decodes.
"""

import json
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conch.component.parameters import existing
from conch.component.waveform import SAMPLE_RATE
from conch.families.ctc import WEIGHTS
from conch.wire.errors import ConfigError

ENCODER_FRAME_SAMPLES = 320
"""Samples of one encoder frame: 20 ms."""
SHIPPED = WEIGHTS / "ctc-en.onnx"

_METADATA = 14
"""Field `metadata_props` of ONNX's ModelProto; its own fields are `key` and `value`."""
_KEY, _VALUE = 1, 2
# Wire types of https://protobuf.dev/programming-guides/encoding/.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The output units of a graph."""

    texts: tuple[str, ...]
    """Text of each unit. The first is the blank, with an empty text. A space separates words."""
    stack: int
    """Number of encoder frames per output frame."""
    units: str
    """The units as JSON, for `conch.families.ctc.units.units_from_dict`."""

    @property
    def frame_s(self) -> float:
        """Length of an output frame in seconds."""
        return self.stack * ENCODER_FRAME_SAMPLES / SAMPLE_RATE


def model_file(model: str) -> Path:
    """Return the path of a model's .onnx file; `model` is empty for the shipped one."""
    return Path(model) if model else SHIPPED


def read_vocabulary(model: str) -> Vocabulary:
    """Return the output units of a graph.

    Raises:
        ConfigError: the file is missing or is not a CTC graph.
    """
    path = existing(model_file(model), "the CTC model")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            described = _metadata(data)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot load the CTC model {path}: {error}") from error
    return vocabulary_of(described, path)


def vocabulary_of(described: dict[str, str], path: Path) -> Vocabulary:
    """Return the output units from the metadata of the graph at `path`.

    Raises:
        ConfigError: the metadata are not those of a CTC graph.
    """
    try:
        texts = tuple(json.loads(described["vocab"]))
        return Vocabulary(texts, int(described["stack"]), described["units"])
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{path} is not a graph of lab.training.ctc.export: its metadata lack {error}"
        ) from error


def _metadata(data: mmap.mmap) -> dict[str, str]:
    described = {}
    for number, entry in _fields(data, 0, len(data)):
        if number == _METADATA:
            found = dict(_fields(data, entry.start, entry.stop))
            places = (found.get(field, range(0)) for field in (_KEY, _VALUE))  # texts may be empty
            key, value = (data[place.start : place.stop] for place in places)
            described[key.decode()] = value.decode()
    return described


def _fields(data: mmap.mmap, start: int, stop: int) -> Iterator[tuple[int, range]]:
    """Yield the number and the place of each field of a message that is text or a message.

    Raises:
        ValueError: this is no message of Protocol Buffers.
    """
    while start < stop:
        tag, start = _varint(data, start, stop)
        kind = tag & 7
        if kind == _VARINT:
            _, start = _varint(data, start, stop)
        elif kind == _BYTES:
            size, start = _varint(data, start, stop)
            place = range(start, start + size)
            start += size
            if start <= stop:
                yield tag >> 3, place
        elif kind in (_FIXED32, _FIXED64):
            start += 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"byte {start} is of no message of Protocol Buffers")
    if start > stop:
        raise ValueError("the file is cut short")


def _varint(data: mmap.mmap, start: int, stop: int) -> tuple[int, int]:
    """Return the number that begins at `start`, and where it ends."""
    value = shift = 0
    while start < stop and shift < 64:
        byte = data[start]
        value |= (byte & 0x7F) << shift
        start += 1
        if byte < 0x80:
            return value, start
        shift += 7
    raise ValueError("a number is cut short")
