"""Folders of transducers as icefall exports them for sherpa-onnx, checked without loading them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from conch.catalogue.checks import Found, UnfitModelError, size_of
from conch.catalogue.exports import (
    TOKENS,
    chosen_file,
    files_in,
    header_of,
    read_tokens,
    whole_number,
)
from conch.catalogue.onnx_header import Header, Value

TYPES = ("zipformer2", "zipformer", "conformer", "lstm", "ebranchformer")
"""Values of `model_type` in an encoder's metadata. Only their names are known here: what an encoder
keeps from chunk to chunk is read from its inputs."""
PARTS = ("encoder", "decoder", "joiner")


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
class Transducer:
    """A complete folder."""

    folder: Path
    parts: Mapping[str, Path]
    """The files, by the names in `PARTS`."""
    headers: Mapping[str, Header]
    tokens: tuple[str, ...]
    """Symbol of each unit. The first is the blank."""
    context_size: int
    """Units before the next one that the decoder reads."""
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
        """Whether the encoder hears live audio."""
        return bool(self.states)


def check_transducer(folder: Path) -> Found:
    """Check a folder, and return what it is; the errors are those of `read_transducer`."""
    found = read_transducer(folder)
    kind = found.headers["encoder"].metadata.get("model_type", "")
    return Found(
        None,
        size_of(folder),
        family=f"transducer ({kind})" if kind else "transducer",
        features=f"{found.num_mels} mel filters of Kaldi, every 10 ms",
        units=len(found.tokens),
        is_live=found.is_live,
    )


def read_transducer(folder: Path, precision: str = "float32") -> Transducer:
    """Return what a folder holds, without its weights.

    Args:
        folder: Has `encoder*.onnx`, `decoder*.onnx`, `joiner*.onnx` and `tokens.txt`, or folders
            with them.
        precision: Which files are taken where there are several: those in float32, or in int8.

    Raises:
        UnfitModelError: a file is missing or broken, or is of another kind of model.
    """
    try:
        chosen = {part: chosen_file(folder, part, precision) for part in PARTS}
        tokens = files_in(folder, TOKENS)
        parts = {part: path for part, path in chosen.items() if path}
        lacking = [f"{part}*.onnx" for part in PARTS if part not in parts]
        if lacking or not tokens:
            raise UnfitModelError(
                f"it lacks {', '.join([*lacking, *([] if tokens else [TOKENS])])}; a transducer "
                f"has encoder*.onnx, decoder*.onnx, joiner*.onnx and {TOKENS}, as icefall exports "
                "them for sherpa-onnx"
            )
        headers = {part: header_of(path) for part, path in parts.items()}
        return _transducer(folder, parts, headers, tokens[0])
    except OSError as error:
        raise UnfitModelError(f"it cannot be read: {error}") from None


def _transducer(
    folder: Path, parts: Mapping[str, Path], headers: Mapping[str, Header], tokens: Path
) -> Transducer:
    encoder, decoder = headers["encoder"], headers["decoder"]
    name = parts["encoder"].name
    kind = encoder.metadata.get("model_type", "")
    if kind and kind not in TYPES:
        raise UnfitModelError(
            f"its {name} has model_type {kind!r:.60}; those served are {', '.join(TYPES)}"
        )
    if encoder.metadata.get("feature"):
        raise UnfitModelError(
            f"its {name} takes features of {encoder.metadata['feature']!r:.40}, not of Kaldi"
        )
    x, *others = encoder.inputs
    if len(x.dims) != 3:
        raise UnfitModelError(f"its {name} takes {x.name}{list(x.dims)}, not [N, frames, mels]")
    size = whole_number(decoder, parts["decoder"], "vocab_size")
    width = headers["joiner"].outputs[0].dims[-1:]
    if width and isinstance(width[0], int) and width[0] != size:
        raise UnfitModelError(
            f"its {parts['joiner'].name} writes {width[0]} units and its "
            f"{parts['decoder'].name} reads {size}: they are of different models"
        )
    is_live = len(others) > 1
    return Transducer(
        folder=folder,
        parts=parts,
        headers=headers,
        tokens=read_tokens(tokens, size),
        context_size=whole_number(decoder, parts["decoder"], "context_size"),
        num_mels=x.dims[2] if isinstance(x.dims[2], int) else 80,
        states=_states(encoder, name) if is_live else (),
        takes_batches=isinstance(x.dims[0], str),
        chunk=whole_number(encoder, parts["encoder"], "T") if is_live else 0,
        shift=whole_number(encoder, parts["encoder"], "decode_chunk_len") if is_live else 0,
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
