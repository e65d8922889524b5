"""Folders of transducers as icefall exports them for sherpa-onnx, checked without loading them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from conch.catalogue.checks import Found, UnfitModelError, size_of
from conch.catalogue.onnx_header import FLOAT16, Header, Value, read_header

PRECISIONS = ("float32", "int8")
TYPES = ("zipformer2", "zipformer", "conformer", "lstm", "ebranchformer")
"""Values of `model_type` in an encoder's metadata. Only their names are known here: what an encoder
keeps from chunk to chunk is read from its inputs."""
BLANKS = ("<blk>", "<blank>", "<eps>")
PARTS = ("encoder", "decoder", "joiner")
TOKENS = "tokens.txt"
_INT8, _HALF = re.compile(r"[._-]int8\b"), re.compile(r"[._-]fp16\b")


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
        chosen = {part: _chosen(folder, part, precision) for part in PARTS}
        tokens = _files(folder, TOKENS)
        parts = {part: path for part, path in chosen.items() if path}
        lacking = [f"{part}*.onnx" for part in PARTS if part not in parts]
        if lacking or not tokens:
            raise UnfitModelError(
                f"it lacks {', '.join([*lacking, *([] if tokens else [TOKENS])])}; a transducer "
                f"has encoder*.onnx, decoder*.onnx, joiner*.onnx and {TOKENS}, as icefall exports "
                "them for sherpa-onnx"
            )
        headers = {part: _header(path) for part, path in parts.items()}
        return _transducer(folder, parts, headers, tokens[0])
    except OSError as error:
        raise UnfitModelError(f"it cannot be read: {error}") from None


def _files(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a name in a folder, or in the folders inside it, as Vosk has them."""
    for place in (pattern, f"*/{pattern}"):
        if found := sorted(path for path in folder.glob(place) if path.is_file()):
            return found
    return []


def _chosen(folder: Path, part: str, precision: str) -> Path | None:
    """Return the file of a part; None without one."""
    files = _files(folder, f"*{part}*.onnx")
    int8 = [path for path in files if _INT8.search(path.name)]
    half = [path for path in files if _HALF.search(path.name)]
    plain = [path for path in files if path not in (*int8, *half)]
    first, second = (int8, plain) if precision == "int8" else (plain, int8)
    found = first or second or half
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise UnfitModelError(f"it has several files for the {part}: {names}; leave one of them")
    return found[0] if found else None


def _header(path: Path) -> Header:
    try:
        header = read_header(path)
    except ValueError as error:
        raise UnfitModelError(f"its {path.name} is no ONNX model: {error}") from None
    if not header.inputs or not header.outputs:
        raise UnfitModelError(f"its {path.name} is no ONNX model: it has no inputs or no outputs")
    for name in sorted(header.external):
        if not (path.parent / name).is_file():
            raise UnfitModelError(f"it lacks {name}, which holds weights of {path.name}")
    if any(item.kind == FLOAT16 for item in (*header.inputs, *header.outputs)):
        raise UnfitModelError(
            f"its {path.name} takes float16, which needs a GPU: export it in float32 or int8"
        )
    return header


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
    size = _whole(decoder, parts["decoder"], "vocab_size")
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
        context_size=_whole(decoder, parts["decoder"], "context_size"),
        num_mels=x.dims[2] if isinstance(x.dims[2], int) else 80,
        states=_states(encoder, name) if is_live else (),
        takes_batches=isinstance(x.dims[0], str),
        chunk=_whole(encoder, parts["encoder"], "T") if is_live else 0,
        shift=_whole(encoder, parts["encoder"], "decode_chunk_len") if is_live else 0,
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


def _whole(header: Header, path: Path, key: str) -> int:
    """Return a number of the metadata that is above 0."""
    value = header.metadata.get(key, "")
    if not value.isdecimal() or not int(value):
        raise UnfitModelError(
            f"the metadata of its {path.name} have no number {key!r}, as icefall writes it"
        )
    return int(value)


def read_tokens(path: Path, size: int) -> tuple[str, ...]:
    """Return the symbols of a model with `size` units, by their numbers.

    Symbols behind them that begin with # are of a lexicon, and are left out.

    Raises:
        OSError: the file cannot be read.
        UnfitModelError: it has other numbers, or its first symbol is not the blank.
    """
    symbols: dict[int, str] = {}
    for number, line in enumerate(path.read_text("utf-8", "replace").split("\n"), 1):
        # Not `split()`: a wide space is a symbol.
        *symbol, unit = re.split("[ \t]+", line.strip(" \t\r"))
        if len(symbol) > 1 or not (unit.isdecimal() or not (unit or symbol)):
            raise UnfitModelError(f"line {number} of its {TOKENS} is no symbol and number")
        if unit:
            symbols[int(unit)] = symbol[0] if symbol else " "
    more = [text for unit, text in symbols.items() if unit >= size and not text.startswith("#")]
    num_units = sum(unit < size for unit in symbols)
    if more or num_units < size:
        raise UnfitModelError(
            f"its {TOKENS} has {num_units + len(more)} units and its joiner writes {size}: they "
            "are of different models"
        )
    for unit, text in symbols.items():
        if unit and text in BLANKS:
            raise UnfitModelError(
                f"the blank of its {TOKENS} is unit {unit}; the first one is served"
            )
    return tuple(symbols[unit] for unit in range(size))
