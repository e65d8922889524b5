"""Folders of FunASR's models, as FunASR exports them or sherpa-onnx converts them, not loaded."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conch.catalogue.checks import Found, UnfitModelError, read_json, size_of
from conch.catalogue.exports import (
    TOKENS,
    chosen_file,
    files_in,
    header_of,
    read_tokens,
    whole_number,
)
from conch.catalogue.onnx_header import Header

MVN, CONFIG, TOKEN_LIST = "am.mvn", "config.yaml", "tokens.json"
_FRONT_END = {"fs": 16_000, "window": "hamming", "frame_length": 25, "frame_shift": 10}
"""Settings of the features that are always the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontEnd:
    """The features of a model: the arguments of `conch.component.lfr.LowFrameRate`."""

    num_mels: int
    window: int
    shift: int
    neg_mean: tuple[float, ...]
    inv_stddev: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paraformer:
    """A complete folder."""

    network: Path
    header: Header
    front_end: FrontEnd
    tokens: tuple[str, ...]
    """Symbol of each unit."""
    num_ends: int
    """Units behind the text that the model was taught to find."""

    @property
    def says_times(self) -> bool:
        """Whether the network says where it has found each unit."""
        return len(self.header.outputs) > 3


def check_paraformer(folder: Path) -> Found:
    """Check a folder, and return what it is; the errors are those of `read_paraformer`."""
    found = read_paraformer(folder)
    front = found.front_end
    return Found(
        None,
        size_of(folder),
        family="Paraformer with times of words" if found.says_times else "Paraformer",
        features=f"{front.num_mels} mel filters of Kaldi, {front.window} frames every "
        f"{front.shift}0 ms",
        units=len(found.tokens),
    )


def read_paraformer(folder: Path, precision: str = "float32") -> Paraformer:
    """Return what a folder holds, without its weights.

    Args:
        folder: Has `model.onnx`, and either `am.mvn`, `config.yaml` and `tokens.json`, or
            `tokens.txt` and the rest in the metadata of `model.onnx`.
        precision: Which file is taken where there are two: that in float32, or in int8.

    Raises:
        UnfitModelError: a file is missing or broken, or is of another kind of model.
    """
    try:
        return _paraformer(folder, precision)
    except OSError as error:
        raise UnfitModelError(f"it cannot be read: {error}") from None


def _paraformer(folder: Path, precision: str) -> Paraformer:
    for name, what in (("model_eb", "hotwords by a network"), ("decoder", "live audio")):
        if files_in(folder, f"{name}*.onnx"):
            raise UnfitModelError(f"it has {name}*.onnx, of a model for {what}, which is refused")
    network = chosen_file(folder, "model", precision)
    if network is None:
        raise UnfitModelError(
            f"it lacks model.onnx; a Paraformer has model.onnx, {MVN}, {CONFIG} and {TOKEN_LIST}, "
            f"as FunASR exports it, or model.onnx and {TOKENS}, as sherpa-onnx converts it"
        )
    header = header_of(network)
    kind = header.metadata.get("model_type", "paraformer")
    names = ", ".join(item.name for item in header.inputs)
    if kind != "paraformer" or len(header.inputs) != 2 or len(header.outputs) < 2:
        raise UnfitModelError(
            f"its {network.name} is of type {kind!r:.40}, takes {names:.200} and gives "
            f"{len(header.outputs)} outputs; a Paraformer takes speech and speech_lengths, and "
            "gives logits and token_num"
        )
    front_end, conf = _front_end(folder, network, header)
    width = header.outputs[0].dims[-1:]
    if not width or not isinstance(width[0], int):
        width = (whole_number(header, network, "vocab_size"),)
    return Paraformer(
        network=network,
        header=header,
        front_end=front_end,
        tokens=_tokens(folder, int(width[0])),
        num_ends=_number(conf.get("model_conf", {}), "predictor_bias", 0),
    )


def _front_end(folder: Path, network: Path, header: Header) -> tuple[FrontEnd, dict[str, Any]]:
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
        conf = _config(folder / CONFIG)
        front = conf["frontend_conf"]
        for key, wanted in _FRONT_END.items():
            if front.get(key, wanted) != wanted:
                raise UnfitModelError(
                    f"its {CONFIG} has {key} {front[key]!r:.40}; {wanted} is served"
                )
        window, shift, num_mels = (
            _number(front, key, default, least=1)
            for key, default in (("lfr_m", 1), ("lfr_n", 1), ("n_mels", 80))
        )
        where, text = f"its {MVN}", (folder / MVN).read_text("utf-8", "replace")
        found = (re.search(rf"<{key}>.*?\[(.*?)\]", text, re.S) for key in ("AddShift", "Rescale"))
        texts = [item[1] if item else "" for item in found]
    means = [_floats(item, where) for item in texts]
    wanted = window * num_mels
    if [*map(len, means)] != [wanted, wanted] or size not in (0, wanted):
        raise UnfitModelError(
            f"{where} has {len(means[0])} means and {len(means[1])} deviations, its {network.name} "
            f"takes {size or 'any'} features, and {window} frames of {num_mels} filters are "
            f"{wanted}: they are of different models"
        )
    return FrontEnd(
        num_mels=num_mels, window=window, shift=shift, neg_mean=means[0], inv_stddev=means[1]
    ), conf


def _config(path: Path) -> dict[str, Any]:
    """Return FunASR's config, with a `frontend_conf`."""
    import yaml

    try:
        found = yaml.safe_load(path.read_text("utf-8"))
    except (ValueError, yaml.YAMLError) as error:
        raise UnfitModelError(f"its {path.name} is broken: {error!s:.200}") from None
    if not isinstance(found, dict) or not isinstance(found.get("frontend_conf"), dict):
        raise UnfitModelError(f"its {path.name} has no frontend_conf")
    return found


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


def _tokens(folder: Path, size: int) -> tuple[str, ...]:
    if files := files_in(folder, TOKENS):
        return read_tokens(files[0], size, "network")
    path = folder / TOKEN_LIST
    if not path.is_file():
        raise UnfitModelError(f"it lacks {TOKEN_LIST}, or {TOKENS}")
    tokens = tuple(map(str, read_json(path, list, "list of tokens")))
    if len(tokens) != size:
        raise UnfitModelError(
            f"its {TOKEN_LIST} has {len(tokens)} units and its network writes {size}: they are of "
            "different models"
        )
    return tokens
