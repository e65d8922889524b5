"""What an .onnx file says of itself, read without its weights.

An .onnx file is a message of Protocol Buffers. ONNX Runtime would load the weights too: seconds,
and 25 MB and more in each process that only decodes.
"""

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# Fields of ONNX's messages: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
_GRAPH, _METADATA = 7, 14
_NODE, _WEIGHT, _INPUT, _OUTPUT = 1, 5, 11, 12
_KEY, _VALUE = 1, 2
_OPERATOR = 4
_PIECE, _PIECE_TEXT = 1, 1
_WEIGHT_NAME, _EXTERNAL = 8, 13
_VALUE_NAME, _TYPE, _TENSOR, _ELEMENT, _SHAPE, _DIM, _SIZE, _SYMBOL = 1, 2, 1, 1, 2, 1, 1, 2
# Wire types of https://protobuf.dev/programming-guides/encoding/.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

FLOAT, INT32, INT64, FLOAT16 = 1, 6, 7, 10
"""Numbers of types of tensors."""
_INT8_OPERATORS = {"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "MatMulInteger"}


@dataclass(frozen=True, slots=True)
class Value:
    name: str
    element_type: int
    """Number of its type, as in ONNX's `TensorProto.DataType`."""
    dims: tuple[int | str, ...]
    """Sizes; a text where a size is open."""


@dataclass(frozen=True, slots=True)
class GraphHeader:
    metadata: Mapping[str, str]
    inputs: tuple[Value, ...]
    """Inputs without the weights, which older files list among them."""
    outputs: tuple[Value, ...]
    external: frozenset[str]
    """Names of the files next to it that hold weights."""
    is_int8: bool
    """Whether the network quantises activations: a row then depends on others of its batch."""


def read_metadata(path: Path) -> dict[str, str]:
    """Return the `metadata_props` of a file.

    Raise an OSError if it cannot be read, a ValueError if it is no message of Protocol Buffers.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _metadata(data)


def read_header(path: Path) -> GraphHeader:
    """Return the header of a file's graph; raise as `read_metadata` does."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        whole = range(len(data))
        (graph,) = _ranges(data, whole, _GRAPH) or [range(0)]
        weights, external = set(), set()
        for weight in _ranges(data, graph, _WEIGHT):
            weights |= {_text(data, span) for span in _ranges(data, weight, _WEIGHT_NAME)}
            pairs = dict(_pair(data, span) for span in _ranges(data, weight, _EXTERNAL))
            external |= {pairs["location"]} if "location" in pairs else set()
        inputs = (_value(data, span) for span in _ranges(data, graph, _INPUT))
        operators = {
            _text(data, span)
            for node in _ranges(data, graph, _NODE)
            for span in _ranges(data, node, _OPERATOR)
        }
        return GraphHeader(
            _metadata(data),
            tuple(item for item in inputs if item.name not in weights),
            tuple(_value(data, span) for span in _ranges(data, graph, _OUTPUT)),
            frozenset(external),
            bool(operators & _INT8_OPERATORS),
        )


def read_pieces(path: Path) -> list[str]:
    """Return the pieces of a sentencepiece model; raise as `read_metadata` does."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        pieces = _ranges(data, range(len(data)), _PIECE)
        return [_text(data, span) for piece in pieces for span in _ranges(data, piece, _PIECE_TEXT)]


def _metadata(data: mmap.mmap) -> dict[str, str]:
    return dict(_pair(data, span) for span in _ranges(data, range(len(data)), _METADATA))


def _pair(data: mmap.mmap, entry: range) -> tuple[str, str]:
    # Texts may be empty.
    key, value = (next(iter(_ranges(data, entry, field)), range(0)) for field in (_KEY, _VALUE))
    return _text(data, key), _text(data, value)


def _value(data: mmap.mmap, entry: range) -> Value:
    names = [_text(data, span) for span in _ranges(data, entry, _VALUE_NAME)]
    element_type, dims = 0, list[int | str]()
    for type_ in _ranges(data, entry, _TYPE):
        for tensor in _ranges(data, type_, _TENSOR):
            element_type = next(iter(_numbers(data, tensor, _ELEMENT)), 0)
            for shape in _ranges(data, tensor, _SHAPE):
                dims += (_dim(data, dim) for dim in _ranges(data, shape, _DIM))
    return Value("".join(names[:1]), element_type, tuple(dims))


def _dim(data: mmap.mmap, entry: range) -> int | str:
    for span in _ranges(data, entry, _SYMBOL):
        return _text(data, span)
    return next(iter(_numbers(data, entry, _SIZE)), "")


def _text(data: mmap.mmap, span: range) -> str:
    return data[span.start : span.stop].decode()


def _ranges(data: mmap.mmap, message: range, field: int) -> list[range]:
    return [
        span
        for number, span in _fields(data, message)
        if number == field and isinstance(span, range)
    ]


def _numbers(data: mmap.mmap, message: range, field: int) -> list[int]:
    return [
        value
        for number, value in _fields(data, message)
        if number == field and isinstance(value, int)
    ]


def _fields(data: mmap.mmap, message: range) -> Iterator[tuple[int, range | int]]:
    """Yield the number of each field of a message with its value, or the range of its text."""
    start, stop = message.start, message.stop
    while start < stop:
        tag, start = _varint(data, start, stop)
        wire_type = tag & 7
        if wire_type == _VARINT:
            value, start = _varint(data, start, stop)
            yield tag >> 3, value
        elif wire_type == _BYTES:
            size, start = _varint(data, start, stop)
            span = range(start, start + size)
            start += size
            if start <= stop:
                yield tag >> 3, span
        elif wire_type in (_FIXED32, _FIXED64):
            start += 4 if wire_type == _FIXED32 else 8
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
