"""Folders of FunASR's models, as FunASR exports them or sherpa-onnx converts them, not loaded."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from conch.catalogue.checks import (
    ModelSummary,
    UnfitModelError,
    read_json,
    read_text,
    read_yaml,
    readable,
    size_of,
)
from conch.catalogue.exports import (
    TOKENS,
    OnnxNetwork,
    chosen_file,
    files_in,
    header_of,
    of_precision,
    read_tokens,
    whole_number,
)
from conch.catalogue.onnx_header import GraphHeader, read_pieces
from conch.families.funasr import LIVE

MVN, CONFIG, TOKEN_LIST, PIECES = "am.mvn", "config.yaml", "tokens.json", "*.bpe.model"
EMBEDDER = "model_eb"
LANGUAGES = {"auto": 0, "zh": 3, "en": 4, "yue": 7, "ja": 11, "ko": 12}
"""Numbers of SenseVoice's languages."""
_FRONT_END = {"fs": 16_000, "window": "hamming", "frame_length": 25, "frame_shift": 10}
"""Settings of the features that are always the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LowRateFeatures:
    num_mels: int
    window: int
    """Frames of 10 ms in a joined one."""
    shift: int
    """Frames of 10 ms from one to the next."""
    neg_mean: tuple[float, ...]
    """Summand of each feature, `[window * num_mels]`."""
    inv_stddev: tuple[float, ...]
    """Factor of each feature after the addition, `[window * num_mels]`."""

    @property
    def in_words(self) -> str:
        return f"{self.num_mels} mel filters of Kaldi, {self.window} frames every {self.shift}0 ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunasrFolder:
    network: Path
    header: GraphHeader
    front_end: LowRateFeatures
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParaformerFolder(FunasrFolder):
    num_ends: int
    """Units behind the text, which the model was trained to find."""
    embedder: Path | None
    """The network that reads hotwords; None for a model without them."""

    @property
    def says_times(self) -> bool:
        """Whether the network says where it has found each unit."""
        return len(self.header.outputs) > 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SenseVoiceFolder(FunasrFolder):
    languages: Mapping[str, int]
    """Numbers of the languages, and of auto."""
    text_forms: tuple[int, int]
    """Numbers of the text without punctuation, and with it and digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineParaformerFolder(FunasrFolder):
    """An online Paraformer, whose encoder takes the features."""

    decoder: Path
    decoder_header: GraphHeader
    size: int
    """Values of an encoder's frame."""
    caches: tuple[tuple[int, ...], ...]
    """Shapes of the decoder's caches."""


Folder = TypeVar("Folder", bound=FunasrFolder)
Reader = Callable[[Path, str], Folder]
"""Returns what a folder holds, without its weights: that in float32 where there are two files, or
that in int8. Any other folder is an `UnfitModelError`."""


def check_paraformer(folder: Path) -> ModelSummary:
    model = read_paraformer(folder, "float32")
    name = "Paraformer with times of words" if model.says_times else "Paraformer"
    return _summary(folder, model, name)


def check_sense_voice(folder: Path) -> ModelSummary:
    model = read_sense_voice(folder, "float32")
    return replace(_summary(folder, model, "SenseVoice"), languages=len(model.languages) - 1)


def check_online_paraformer(folder: Path) -> ModelSummary:
    model = read_online_paraformer(folder, "float32")
    return replace(_summary(folder, model, "online Paraformer"), is_live=True)


def networks_of_paraformer(folder: Path) -> tuple[OnnxNetwork, ...]:
    model = read_paraformer(folder, "float32")
    if not model.embedder:
        return (_network_of(model, "model"),)
    embedder = OnnxNetwork(
        part="hotwords",
        path=model.embedder,
        header=header_of(model.embedder),
        takes="units of phrases, 10 of each with zeros behind them, and <s> alone as the last one; "
        "the model takes what it gives for the last unit of each as bias_embed",
    )
    return _network_of(model, "model"), embedder


def networks_of_sense_voice(folder: Path) -> tuple[OnnxNetwork, ...]:
    model = read_sense_voice(folder, "float32")
    numbers = ", ".join(f"{name} {number}" for name, number in model.languages.items())
    plain, written = model.text_forms
    more = f"; languages {numbers}; textnorm {written} with punctuation and digits, {plain} without"
    return (_network_of(model, "model", more),)


def networks_of_online_paraformer(folder: Path) -> tuple[OnnxNetwork, ...]:
    model = read_online_paraformer(folder, "float32")
    more = (
        f"; times the root of {model.size}, plus the positions; with the frames of the last chunk"
    )
    decoder = OnnxNetwork(
        part="decoder",
        path=model.decoder,
        header=model.decoder_header,
        takes="what the encoder finds, and caches",
        keeper=LIVE[1],
    )
    return _network_of(model, "encoder", more), decoder


def _network_of(model: FunasrFolder, part: str, more: str = "") -> OnnxNetwork:
    takes = (
        f"{model.front_end.in_words}: windows of 25 ms (hamming), filters from 20 to 8000 Hz, no "
        "dither, samples in [-32768, 32767]; plus the means of am.mvn or neg_mean, times its "
        "deviations or inv_stddev"
    )
    return OnnxNetwork(part=part, path=model.network, header=model.header, takes=takes + more)


def _summary(folder: Path, model: FunasrFolder, family: str) -> ModelSummary:
    return ModelSummary(
        None,
        size_of(folder),
        family=family,
        features=model.front_end.in_words,
        units=len(model.tokens),
    )


@readable()
def read_paraformer(folder: Path, precision: str) -> ParaformerFolder:
    """Return what the folder of a Paraformer holds, which FunASR or sherpa-onnx has exported."""
    if files_in(folder, "decoder*.onnx"):
        raise UnfitModelError("it has decoder*.onnx: an online Paraformer is of another kind", 0)
    embedder = of_precision(files_in(folder, f"{EMBEDDER}*.onnx"), EMBEDDER, precision)
    num_inputs = 3 if embedder else 2
    network, header = _network(folder, precision, "Paraformer", ("paraformer", num_inputs, 2))
    front_end, conf = _front_end(folder, network, header)
    return ParaformerFolder(
        network=network,
        header=header,
        front_end=front_end,
        tokens=_tokens(folder, _width(network, header)),
        embedder=embedder,
        num_ends=_number(conf.get("model_conf", {}), "predictor_bias", 0),
    )


@readable()
def read_sense_voice(folder: Path, precision: str) -> SenseVoiceFolder:
    """Read a folder as that of a Paraformer, or one with symbols in a `.bpe.model`."""
    network, header = _network(folder, precision, "SenseVoice", ("sense_voice_ctc", 4, 1))
    front_end, _ = _front_end(folder, network, header)
    if header.metadata.get("normalize_samples", "0") != "0":
        raise UnfitModelError(f"its {network.name} takes samples in [-1, 1], which is not served")

    def number(key: str, default: int) -> int:
        is_there = key in header.metadata
        return whole_number(header, network, key, least=0) if is_there else default

    return SenseVoiceFolder(
        network=network,
        header=header,
        front_end=front_end,
        tokens=_tokens(folder, _width(network, header)),
        languages={key: number(f"lang_{key}", value) for key, value in LANGUAGES.items()},
        text_forms=(number("without_itn", 15), number("with_itn", 14)),
    )


@readable()
def read_online_paraformer(folder: Path, precision: str) -> OnlineParaformerFolder:
    """Read a Paraformer's folder with `decoder.onnx` too; `model.onnx` may be `encoder.onnx`."""
    names = ("encoder", "decoder") if files_in(folder, "*encoder*.onnx") else ("model", "decoder")
    network, decoder = (chosen_file(folder, name, precision) for name in names)
    if network is None or decoder is None:
        raise UnfitModelError(
            "it lacks decoder.onnx, and encoder.onnx or model.onnx; an online Paraformer has both",
            0,
        )
    header, decoder_header = header_of(network), header_of(decoder)
    ends = [(len(item.inputs), len(item.outputs)) for item in (header, decoder_header)]
    num_caches = ends[1][0] - 4
    if ends != [(2, 3), (4 + num_caches, 2 + num_caches)] or num_caches < 1:
        raise UnfitModelError(
            f"its {network.name} and {decoder.name} have {ends[0][0]} and {ends[1][0]} inputs, and "
            f"{ends[0][1]} and {ends[1][1]} outputs, which an online Paraformer has not",
            0,
        )
    front_end, _ = _front_end(folder, network, header)
    caches = [
        tuple(dim for dim in item.dims[1:] if isinstance(dim, int))
        for item in decoder_header.inputs[4:]
    ]
    if any(len(shape) != 2 for shape in caches):
        raise UnfitModelError(f"its {decoder.name} does not say how much it keeps of a stream")
    return OnlineParaformerFolder(
        network=network,
        decoder=decoder,
        header=header,
        decoder_header=decoder_header,
        front_end=front_end,
        tokens=_tokens(folder, _width(decoder, decoder_header)),
        size=caches[0][0],
        caches=tuple((1, *shape) for shape in caches),
    )


def _network(
    folder: Path, precision: str, name: str, wanted: tuple[str, int, int]
) -> tuple[Path, GraphHeader]:
    """Return a network and its header; `wanted`: type, number of inputs, fewest outputs."""
    files = [path for path in files_in(folder, "*model*.onnx") if EMBEDDER not in path.name]
    network = of_precision(files, "model", precision)
    if network is None:
        raise UnfitModelError(
            f"it lacks model.onnx; a {name} has model.onnx, {MVN}, {CONFIG} and {TOKEN_LIST}, as "
            f"FunASR exports it, or model.onnx and {TOKENS}, as sherpa-onnx converts it",
            (folder / MVN).is_file() / 2,
        )
    header = header_of(network)
    expected, num_inputs, num_outputs = wanted
    model_type = header.metadata.get("model_type", expected)
    names = ", ".join(item.name for item in header.inputs)
    fits = len(header.inputs) == num_inputs and len(header.outputs) >= num_outputs
    if model_type != expected or not fits:
        raise UnfitModelError(
            f"its {network.name} is of type {model_type!r:.40}, takes {names:.200} and gives "
            f"{len(header.outputs)} outputs; a {name} is of type {expected}, takes {num_inputs} "
            f"inputs and gives {num_outputs} or more",
            0,
        )
    return network, header


def _width(network: Path, header: GraphHeader) -> int | None:
    """Return the number of units that a network writes; None if FunASR's does not say it."""
    width = header.outputs[0].dims[-1:]
    if width and isinstance(width[0], int):
        return width[0]
    has_metadata = "neg_mean" in header.metadata
    return whole_number(header, network, "vocab_size") if has_metadata else None


def _front_end(
    folder: Path, network: Path, header: GraphHeader
) -> tuple[LowRateFeatures, dict[str, Any]]:
    """Return how features are made, and what `config.yaml` says; nothing of metadata."""
    x = header.inputs[0]
    size = x.dims[-1] if len(x.dims) == 3 and isinstance(x.dims[-1], int) else 0
    conf: dict[str, Any] = {}
    if "neg_mean" in header.metadata:
        window = whole_number(header, network, "lfr_window_size")
        shift = whole_number(header, network, "lfr_window_shift")
        where, num_mels = f"the metadata of its {network.name}", (size or 80 * window) // window
        texts = [header.metadata.get(key, "") for key in ("neg_mean", "inv_stddev")]
    else:
        lacking = [name for name in (MVN, CONFIG) if not (folder / name).is_file()]
        if lacking:
            raise UnfitModelError(
                f"it lacks {' and '.join(lacking)}: how features are made is there, or in the "
                f"metadata of {network.name} as neg_mean and inv_stddev, which has none"
            )
        conf = read_yaml(folder / CONFIG)
        front = conf.get("frontend_conf")
        if not isinstance(front, dict):
            raise UnfitModelError(f"its {CONFIG} has no frontend_conf")
        for key, wanted in _FRONT_END.items():
            if front.get(key, wanted) != wanted:
                raise UnfitModelError(
                    f"its {CONFIG} has {key} {front[key]!r:.40}; {wanted} is served"
                )
        window, shift, num_mels = (
            _number(front, key, default, least=1)
            for key, default in (("lfr_m", 1), ("lfr_n", 1), ("n_mels", 80))
        )
        where, text = f"its {MVN}", read_text(folder / MVN)
        parts = (re.search(rf"<{key}>.*?\[(.*?)\]", text, re.S) for key in ("AddShift", "Rescale"))
        texts = [part[1] if part else "" for part in parts]
    means = [_floats(item, where) for item in texts]
    wanted = window * num_mels
    if [*map(len, means)] != [wanted, wanted] or size not in (0, wanted):
        raise UnfitModelError(
            f"{where} has {len(means[0])} means and {len(means[1])} deviations, its {network.name} "
            f"takes {size or 'any'} features, and {window} frames of {num_mels} filters are "
            f"{wanted}: they are of different models"
        )
    return LowRateFeatures(
        num_mels=num_mels, window=window, shift=shift, neg_mean=means[0], inv_stddev=means[1]
    ), conf


def _number(conf: Any, key: str, default: int, least: int = 0) -> int:
    value = conf.get(key, default) if isinstance(conf, dict) else default
    if not isinstance(value, int) or not least <= value <= 1000:
        raise UnfitModelError(f"its {CONFIG} has {key} {value!r:.40}, no number from {least} on")
    return value


def _floats(text: str, where: str) -> tuple[float, ...]:
    try:
        return tuple(map(float, text.replace(",", " ").split()))
    except ValueError as error:
        raise UnfitModelError(f"{where} has a mean or a deviation that is none: {error}") from None


def _tokens(folder: Path, size: int | None) -> tuple[str, ...]:
    """Return the symbols of a model with `size` units; None for any number."""
    if size is not None and (files := files_in(folder, TOKENS)):
        return read_tokens(files[0], size, "network")
    path = folder / TOKEN_LIST
    if path.is_file():
        tokens = tuple(map(str, read_json(path, list, "list of tokens")))
    elif files := files_in(folder, PIECES):
        path = files[0]
        try:
            tokens = tuple(read_pieces(path))
        except ValueError as error:
            raise UnfitModelError(f"its {path.name} is no sentencepiece model: {error}") from None
    else:
        raise UnfitModelError(f"it lacks {TOKEN_LIST}, {TOKENS} or {PIECES}")
    if size not in (None, len(tokens)):
        raise UnfitModelError(
            f"its {path.name} has {len(tokens)} units and its network writes {size}: they are of "
            "different models"
        )
    return tokens
