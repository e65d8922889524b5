"""The encoder of an export: what it takes, and what it keeps from chunk to chunk."""

from dataclasses import dataclass
from pathlib import Path

from conch.catalogue.checks import UnfitModelError
from conch.catalogue.exports import whole_number
from conch.catalogue.onnx_header import Header, Value


@dataclass(frozen=True, slots=True)
class State:
    """What a streaming encoder keeps of a stream from chunk to chunk."""

    name: str
    """Of the input."""
    kind: int
    """As in `Value`."""
    shape: tuple[int, ...]
    """For one stream."""
    axis: int
    """The axis of the streams."""
    is_counter: bool
    """Whether the caller counts it: the feature frames before the chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """A network that hears features."""

    path: Path
    header: Header
    num_mels: int
    states: tuple[State, ...]
    """Empty for an encoder of whole recordings."""
    takes_batches: bool
    chunk: int
    """Feature frames that one run of a streaming encoder reads; 0 for one of recordings."""
    shift: int
    """Feature frames from one run to the next."""

    @property
    def is_live(self) -> bool:
        """Whether it hears live audio."""
        return bool(self.states)


def read_encoder(path: Path, header: Header) -> Encoder:
    """Return the encoder of a file as icefall exports it.

    Raises:
        UnfitModelError: it takes other features, or other inputs.
    """
    if header.metadata.get("feature"):
        raise UnfitModelError(
            f"its {path.name} takes features of {header.metadata['feature']!r:.40}, not of Kaldi"
        )
    x, *others = header.inputs
    if len(x.dims) != 3:
        raise UnfitModelError(
            f"its {path.name} takes {x.name}{list(x.dims)}, not [N, frames, mels]"
        )
    is_live = len(others) > 1
    return Encoder(
        path=path,
        header=header,
        num_mels=x.dims[2] if isinstance(x.dims[2], int) else 80,
        states=_states(header, path.name) if is_live else (),
        takes_batches=isinstance(x.dims[0], str),
        chunk=whole_number(header, path, "T") if is_live else 0,
        shift=whole_number(header, path, "decode_chunk_len") if is_live else 0,
    )


def _states(encoder: Header, file: str) -> tuple[State, ...]:
    """Return the states of a streaming encoder: its inputs but the first, by the same outputs."""
    x, *inputs = encoder.inputs
    num_counters = len(inputs) - (len(encoder.outputs) - 1)
    counters = {item.name for item in inputs if item.name == "processed_lens" and num_counters == 1}
    if num_counters != len(counters):
        raise UnfitModelError(
            f"its {file} takes {len(inputs)} states and gives {len(encoder.outputs) - 1}"
        )
    return tuple(_state(item, x.dims[0], item.name in counters, file) for item in inputs)


def _state(item: Value, batch: int | str, is_counter: bool, file: str) -> State:
    axes = [place for place, size in enumerate(item.dims) if size == batch]
    shape = tuple(1 if size == batch else size for size in item.dims)
    sizes = [size for size in shape if isinstance(size, int)]
    if not axes or len(sizes) < len(shape):
        raise UnfitModelError(
            f"its {file} takes {item.name}{list(item.dims)}, whose sizes are not known but for "
            f"the number of streams, {batch}"
        )
    return State(item.name, item.kind, tuple(sizes), axes[0], is_counter)
