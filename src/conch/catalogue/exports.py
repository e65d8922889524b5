"""The files of exported models: networks and their headers, tokens, and what an encoder keeps."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from conch.catalogue.checks import UnfitModelError, read_text
from conch.catalogue.onnx_header import FLOAT16, GraphHeader, Value, read_header
from conch.wire.errors import ConfigError
from conch.wire.languages import code_of

PRECISIONS = ("float32", "int8")
BLANKS = ("<blk>", "<blank>", "<eps>")
TOKENS = "tokens.txt"
_INT8, _HALF = re.compile(r"[._-](int8|quant|quantized)\b"), re.compile(r"[._-]fp16\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Settings of the filter banks that a network reads, by Kaldi's code."""

    maker: str = "Kaldi"
    is_16_bit: bool = True
    """Whether samples are in [-32768, 32767], else in [-1, 1]."""
    window: str = "povey"
    window_ms: float = 25.0
    snip_edges: bool = False
    """Whether all windows are inside the audio, else those at its edges are mirrored."""
    low: float = 20.0
    high: float = 7600.0
    """Hz of the first and the last filter."""
    is_librosa: bool = False
    """Whether the filters are those of Slaney."""
    removes_mean: bool = True
    is_narrow: bool = False
    """Whether some filters are narrower than a bin of the transform."""
    is_mfcc: bool = False
    filters_first: bool = False
    """Whether the network takes `[N, filters, frames]`."""

    def takes(self, num: int) -> str:
        kind = "cepstral coefficients" if self.is_mfcc else "mel filters"
        return f"{num} {kind} of {self.maker}, every 10 ms"

    @property
    def settings(self) -> str:
        """How the features are computed, besides their number, in words."""
        edges = "inside the audio" if self.snip_edges else "that are mirrored at the edges"
        slaney = " of Slaney" * self.is_librosa
        kept = ", the mean not removed" * (not self.removes_mean)
        samples = "[-32768, 32767]" if self.is_16_bit else "[-1, 1]"
        return (
            f"windows of {self.window_ms:g} ms ({self.window}) {edges} "
            f"(snip_edges={str(self.snip_edges).lower()}), filters{slaney} from {self.low:g} to "
            f"{self.high:g} Hz{kept}, no dither, samples in {samples}"
        )


KALDI = Features(is_16_bit=False)
"""Features of icefall."""
KALDI_OF_16_BITS = Features()
"""Features that sherpa-onnx gives to WeNet's exports."""
KALDI_BY_DEFAULT = Features(snip_edges=True, high=8000.0)
NEMO = Features(
    maker="NeMo",
    is_16_bit=False,
    window="hann",
    low=0.0,
    high=8000.0,
    is_librosa=True,
    removes_mean=False,
    filters_first=True,
)
NEMO_TRANSDUCER = replace(NEMO, window="povey", high=7600.0)
"""Features of sherpa-onnx for recordings."""
_WHOLE = 100_000
"""Frames of the one chunk of a recording."""
WINDOWS = "nemo_parakeet_unified_streaming"
"""The `streaming_model_type` of an encoder whose chunks reach into the audio on both sides."""
PROMPT = "prompt_index"
NEMO_STATES = ("cache_last_channel", "cache_last_time", "cache_last_channel_len")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxNetwork:
    """A network of a folder, as a model of its own."""

    part: str
    """Name among the networks of the folder."""
    path: Path
    header: GraphHeader
    takes: str
    """Input that its caller computes, in words."""
    keeper: str = ""
    """The component that keeps what it heard from call to call; empty where nothing is kept."""


def check_precision(precision: str) -> None:
    if precision not in PRECISIONS:
        raise ConfigError(
            f"parameter 'precision' takes {' or '.join(PRECISIONS)}; is: {precision!r:.40}"
        )


def files_in(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a name in a folder, or in the folders inside it, as Vosk has them."""
    for glob in (pattern, f"*/{pattern}"):
        if files := sorted(path for path in folder.glob(glob) if path.is_file()):
            return files
    return []


def chosen_file(folder: Path, part: str, precision: str) -> Path | None:
    """Return the file whose name has a part in it, see `of_precision`; None without one."""
    return of_precision(files_in(folder, f"*{part}*.onnx"), part, precision)


def of_precision(files: Sequence[Path], part: str, precision: str) -> Path | None:
    """Return the file of several for one `part`: that in float32, or with `precision` int8 in int8.

    If there is none, another precision counts. Raise an UnfitModelError if that leaves several.
    """
    int8 = [path for path in files if _INT8.search(path.name)]
    half = [path for path in files if _HALF.search(path.name)]
    plain = [path for path in files if path not in (*int8, *half)]
    first, second = (int8, plain) if precision == "int8" else (plain, int8)
    matching = first or second or half
    if len(matching) > 1:
        names = ", ".join(path.name for path in matching)
        raise UnfitModelError(f"it has several files for the {part}: {names}; leave one of them")
    return matching[0] if matching else None


def header_of(path: Path) -> GraphHeader:
    """Return the header of a network that is whole and runs on a CPU."""
    try:
        header = read_header(path)
    except ValueError as error:
        raise UnfitModelError(f"its {path.name} is no ONNX model: {error}") from None
    if not header.inputs or not header.outputs:
        raise UnfitModelError(f"its {path.name} is no ONNX model: it has no inputs or no outputs")
    for name in sorted(header.external):
        if not (path.parent / name).is_file():
            raise UnfitModelError(f"it lacks {name}, which holds weights of {path.name}")
    if any(item.element_type == FLOAT16 for item in (*header.inputs, *header.outputs)):
        raise UnfitModelError(
            f"its {path.name} takes float16, which needs a GPU: export it in float32 or int8"
        )
    return header


def whole_number(header: GraphHeader, path: Path, key: str, least: int = 1) -> int:
    """Return a number of the metadata that is `least` or more."""
    value = header.metadata.get(key, "")
    if not value.isdecimal() or int(value) < least:
        raise UnfitModelError(
            f"the metadata of its {path.name} have no number {key!r}, as an export has it"
        )
    return int(value)


def read_tokens(path: Path, size: int, part: str = "joiner", *, blank: int = 0) -> tuple[str, ...]:
    """Return the symbols of a model; check that its blank is unit `blank`. See `read_symbols`."""
    symbols = read_symbols(path, size, part)
    for unit, text in enumerate(symbols):
        if unit != blank and text in BLANKS:
            raise UnfitModelError(
                f"the blank of its {TOKENS} is unit {unit}; that of such a model is unit {blank}"
            )
    return symbols


def check_distinct(symbols: Sequence[str], name: str) -> None:
    """Check that no two units of the file `name` write the same."""
    most, times = Counter(text.replace("▁", " ") for text in symbols).most_common(1)[0]
    if times > 1:
        raise UnfitModelError(f"its {name} has {times} units {most!r:.40}")


def read_symbols(path: Path, size: int, part: str) -> tuple[str, ...]:
    """Return the symbols of a model whose `part` writes `size` units, by their numbers.

    Symbols behind them that begin with # are of a lexicon, and are left out.
    """
    symbols: dict[int, str] = {}
    for number, line in enumerate(read_text(path).split("\n"), 1):
        # Not `split()`: a wide space is a symbol.
        *symbol, unit = re.split("[ \t]+", line.strip(" \t\r"))
        if len(symbol) > 1 or not (unit.isdecimal() or not (unit or symbol)):
            raise UnfitModelError(f"line {number} of its {path.name} is no symbol and number")
        if unit:
            symbols[int(unit)] = symbol[0] if symbol else " "
    more = [text for unit, text in symbols.items() if unit >= size and not text.startswith("#")]
    num_units = sum(unit < size for unit in symbols)
    if more or num_units < size:
        raise UnfitModelError(
            f"its {path.name} has {num_units + len(more)} units and its {part} writes {size}: they "
            "are of different models"
        )
    return tuple(symbols[unit] for unit in range(size))


@dataclass(frozen=True, slots=True)
class State:
    """A tensor that a streaming encoder carries from chunk to chunk."""

    name: str
    element_type: int
    """ONNX's number of the type, as in `Value`."""
    shape: tuple[int, ...]
    """Shape for one stream."""
    axis: int
    """Axis of the streams in a batch."""
    counts: int = 0
    """Increment that the caller adds after each chunk; 0 if the encoder gives the next value."""
    start: int = 0
    """Value before the first chunk."""
    is_fixed: bool = False
    """Whether the value never changes."""
    is_bare: bool = False
    """Whether the encoder takes one stream alone, and the state without its first axis."""

    @property
    def is_given(self) -> bool:
        """Whether the encoder gives its next value."""
        return not (self.counts or self.is_fixed)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcousticEncoder:
    path: Path
    header: GraphHeader
    features: Features | None = KALDI
    """None for the samples themselves, at 16 kHz in [-1, 1]."""
    num_mels: int = 80
    is_normalised: bool = False
    """Whether each feature is normalised: over the whole recording, or over each chunk."""
    means: tuple[float, ...] = ()
    """Mean to subtract from each feature, in all recordings; empty for none."""
    scales: tuple[float, ...] = ()
    """Factor of each feature after the subtraction."""
    takes_batches: bool
    states: tuple[State, ...] = ()
    chunk: int = 0
    """Feature frames that one run of a streaming encoder reads; 0 for one of whole recordings."""
    shift: int = 0
    """Feature frames from one run to the next."""
    before: int = 0
    """Feature frames of a chunk that runs before have written, for an encoder without states."""
    left: int = 0
    """Frames of output before a chunk that its attention sees, if the caller masks them."""
    subsampling: int = 4
    """Feature frames, or samples, of a frame of output."""
    takes_rest: bool = False
    """Whether the last chunk may be shorter, so that no silence is heard behind the audio."""
    prompts: Mapping[str, int] = field(default_factory=dict)
    """Value of the state `PROMPT` by language, `auto` among them; empty for most encoders."""
    frames_last: bool = False
    """Whether its output is `[N, size, frames]`: that for a joiner of NeMo."""
    frames_first: bool = False
    """Whether its output is `[frames, N, size]`."""

    @property
    def is_live(self) -> bool:
        return bool(self.chunk)

    @property
    def takes(self) -> str:
        """Input of the encoder, in words."""
        return self.features.takes(self.num_mels) if self.features else "the waveform"

    @property
    def settings(self) -> str:
        """How the features are computed, in words."""
        text = self.features.settings if self.features else "16 kHz, in [-1, 1]"
        if self.means:
            return f"{text}; mean and invstd of the metadata applied"
        of = "chunk" if self.is_live else "recording"
        return f"{text}; mean 0 and variance 1 over the {of}" if self.is_normalised else text

    @property
    def least(self) -> int:
        """Feature frames of the shortest chunk, where the last one may be shorter."""
        return self.before + 1 if self.before else self.chunk - self.shift + self.subsampling

    def written(self, length: int) -> slice:
        """Return which frames of output a chunk of so many feature frames completes."""
        if self.before:
            first, new = self.before // self.subsampling, min(self.shift, length - self.before)
            return slice(first, first + math.ceil(new / self.subsampling))
        if length == self.chunk:
            return slice(None)
        return slice((length - self.least) // self.subsampling + 1)


def read_encoder(path: Path, header: GraphHeader) -> AcousticEncoder:
    """Return the encoder of a file as icefall exports it, or raise an UnfitModelError."""
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
    shift = whole_number(header, path, "decode_chunk_len") if is_live else 0
    return AcousticEncoder(
        path=path,
        header=header,
        num_mels=x.dims[2] if isinstance(x.dims[2], int) else 80,
        states=_states(header, path.name, shift) if is_live else (),
        takes_batches=isinstance(x.dims[0], str),
        chunk=whole_number(header, path, "T") if is_live else 0,
        shift=shift,
    )


def read_nemo_encoder(path: Path, header: GraphHeader) -> AcousticEncoder:
    """Return the encoder of a file as sherpa-onnx exports NeMo's, or raise an UnfitModelError."""
    x = header.inputs[0]
    normalises = header.metadata.get("normalize_type", "")
    if header.metadata.get("is_giga_am", "0") != "0" or normalises not in ("", "NA", "per_feature"):
        raise UnfitModelError(
            f"its {path.name} takes features of another kind than NeMo's with normalize_type "
            "per_feature or without any"
        )
    encoder = AcousticEncoder(
        path=path,
        header=header,
        features=NEMO,
        num_mels=x.dims[1] if isinstance(x.dims[1], int) else 80,
        is_normalised=normalises == "per_feature",
        takes_batches=isinstance(x.dims[0], str),
        subsampling=whole_number(header, path, "subsampling_factor"),
    )
    names = [item.name for item in header.inputs[1:]]
    more = sorted({*names} - {"length", *NEMO_STATES, PROMPT})
    if len(header.outputs) < 3 and len(names) == 1:
        return encoder
    if more:
        raise UnfitModelError(f"its {path.name} takes {', '.join(more)} too, which is not known")
    lacking = {"length", *NEMO_STATES} - {*names}
    if lacking:
        raise UnfitModelError(f"its {path.name} takes no {', '.join(sorted(lacking))}")
    sizes = {
        name: [whole_number(header, path, f"{name}_dim{axis}") for axis in (1, 2, 3)]
        for name in NEMO_STATES[:2]
    }
    return replace(
        encoder,
        prompts=_prompts(path, header) if PROMPT in names else {},
        states=tuple(
            State(
                item.name,
                item.element_type,
                (1, *sizes.get(item.name, ())),
                0,
                is_fixed=item.name == PROMPT,
            )
            for item in header.inputs
            if item.name in (*NEMO_STATES, PROMPT)
        ),
        chunk=whole_number(header, path, "window_size"),
        shift=whole_number(header, path, "chunk_shift"),
    )


def _prompts(path: Path, header: GraphHeader) -> dict[str, int]:
    """Return the prompt of each language; a code without a region before those with one."""
    prompts: dict[str, int] = {}
    try:
        entries = json.loads(header.metadata.get("prompt_dictionary", ""))
        for tag in sorted(entries, key=lambda tag: (len(tag), tag)):
            prompts.setdefault(code_of(tag), int(entries[tag]))
    except (AttributeError, TypeError, ValueError):
        prompts = {}
    if "auto" not in prompts:
        raise UnfitModelError(
            f"the metadata of its {path.name} have no prompt_dictionary with auto, as an export "
            "has it"
        )
    return prompts


def in_windows(encoder: AcousticEncoder) -> AcousticEncoder | None:
    """Return the encoder for live audio of one of whole recordings; None if it is for these alone.

    It hears each chunk with the audio before and behind it, as sherpa-onnx runs Parakeet unified.
    """
    header, path = encoder.header, encoder.path
    if header.metadata.get("streaming_model_type") != WINDOWS:
        return None
    left, shift, right = (
        whole_number(header, path, f"{part}_feature_frames") for part in ("left", "chunk", "right")
    )
    return replace(encoder, chunk=left + shift + right, shift=shift, before=left, takes_rest=True)


def with_caches(encoder: AcousticEncoder, attention: str, convolution: str) -> AcousticEncoder:
    """Return a WeNet encoder with caches of these names, or raise an UnfitModelError."""
    header, path = encoder.header, encoder.path
    number = partial(whole_number, header, path)

    inputs = {item.name: item for item in header.inputs}
    lacking = {"offset", attention, convolution} - inputs.keys()
    if lacking:
        raise UnfitModelError(f"its {path.name} takes no {' and no '.join(sorted(lacking))}")
    # Negative: it sees all chunks before. Without chunks it hears whole recordings.
    is_open = header.metadata.get("left_chunks", "").startswith("-")
    frames = number("chunk_size") if header.metadata.get("chunk_size") != "-1" else _WHOLE
    size, left = number("output_size"), 0 if is_open else frames * number("left_chunks", 0)
    layers, heads = number("num_blocks"), number("head")
    types = {name: item.element_type for name, item in inputs.items()}
    attention_shape = (1, layers, heads, left, 2 * (size // heads))
    convolution_shape = (layers, 1, size, number("cnn_module_kernel") - 1)
    is_scalar = not inputs["offset"].dims
    return replace(
        encoder,
        states=(
            State(attention, types[attention], attention_shape, 0, is_bare=True),
            State(convolution, types[convolution], convolution_shape, 1),
            State("offset", types["offset"], (1,), 0, frames, start=left, is_bare=is_scalar),
        ),
        chunk=(frames - 1) * encoder.subsampling + number("right_context") + 1,
        shift=frames * encoder.subsampling,
        left=left,
    )


def _states(encoder: GraphHeader, file: str, shift: int) -> tuple[State, ...]:
    """Return the states of a streaming encoder: its inputs but the first, by the same outputs."""
    x, *inputs = encoder.inputs
    num_counters = len(inputs) - (len(encoder.outputs) - 1)
    counters = {item.name for item in inputs if item.name == "processed_lens" and num_counters == 1}
    if num_counters != len(counters):
        raise UnfitModelError(
            f"its {file} takes {len(inputs)} states and gives {len(encoder.outputs) - 1}"
        )
    return tuple(
        replace(state, counts=shift) if state.name in counters else state
        for state in (state_of(item, x.dims[0], file) for item in inputs)
    )


def state_of(item: Value, batch: int | str, file: str) -> State:
    """Return the state of an input whose next value the encoder in `file` writes.

    The streams are along the axis of size `batch`. Raise an UnfitModelError for unknown sizes.
    """
    axes = [axis for axis, size in enumerate(item.dims) if size == batch]
    shape = tuple(1 if size == batch else size for size in item.dims)
    sizes = [size for size in shape if isinstance(size, int)]
    if not axes or len(sizes) < len(shape):
        raise UnfitModelError(
            f"its {file} takes {item.name}{list(item.dims)}, whose sizes are not known but for "
            f"the number of streams, {batch}"
        )
    return State(item.name, item.element_type, tuple(sizes), axes[0])
