"""The rows of decoders that search: their parameters and frames, and hypotheses as tensors."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from conch.component import FloatArray, Outputs, Row, bytes_array, count_of
from conch.decoding.beam import CtcSearchOptions
from conch.decoding.hypothesis import CtcHypothesis
from conch.wire.errors import InvalidRequestError, OptionError
from conch.wire.hotwords import DEFAULT_HOTWORD_WEIGHT, Hotword, as_ctc_writes, hotwords_of
from conch.wire.limits import MAX_STEP_S, MAX_TEXTS


def search_options(parameters: Mapping[str, Any]) -> CtcSearchOptions:
    """Return the search options of a call, which carries numbers with a fraction as strings."""
    default = CtcSearchOptions()
    return CtcSearchOptions(
        beam_size=count_of(parameters, "beam_size", default.beam_size, MAX_TEXTS),
        language_model=_flag(parameters, "lm_fusion"),
        lm_weight=_number(parameters, "lm_weight", default.lm_weight),
        word_bonus=_number(parameters, "word_bonus", default.word_bonus),
        prune_history=nbest_count(parameters) == 1,
    )


def hotwords(
    parameters: Mapping[str, Any], write: Callable[[str], str] = as_ctc_writes
) -> tuple[Hotword, ...]:
    """Return the hotwords of a call, in the letters that `write` makes of them."""
    weight = _number(parameters, "hotword_weight", DEFAULT_HOTWORD_WEIGHT)
    return hotwords_of(write(str(parameters.get("hotwords", ""))), weight)


def decoder_of(parameters: Mapping[str, Any]) -> str:
    """Return the search of a call, ctc or wfst."""
    decoder = parameters.get("decoder", "ctc")
    if decoder not in ("ctc", "wfst"):
        raise OptionError(f"option 'decoder' takes ctc or wfst; sent: {decoder!r:.40}")
    return str(decoder)


def has_lattice(parameters: Mapping[str, Any]) -> bool:
    is_wanted = _flag(parameters, "lattice")
    if is_wanted and decoder_of(parameters) != "wfst":
        raise OptionError("option 'lattice' goes with decoder wfst; sent: lattice=true")
    return is_wanted


def is_greedy(parameters: Mapping[str, Any]) -> bool:
    """Return whether a call needs the best path alone."""
    needs_beam = parameters.get("lm_fusion") or str(parameters.get("hotwords", "")).strip()
    is_beam = decoder_of(parameters) == "ctc"
    return is_beam and parameters.get("beam_size") == 1 and not needs_beam


def nbest_count(parameters: Mapping[str, Any]) -> int:
    return count_of(parameters, "nbest", 1, MAX_TEXTS)


def _flag(parameters: Mapping[str, Any], name: str) -> bool:
    value = parameters.get(name, False)
    if not isinstance(value, bool):
        raise OptionError(f"option '{name}' takes a bool; sent: {value!r:.40}")
    return value


def _number(parameters: Mapping[str, Any], name: str, default: float) -> float:
    value = parameters.get(name, default)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise OptionError(f"option '{name}' takes a number; sent: {value!r:.80}") from None


def checked_frames(row: Row, name: str, width: int, frame_s: float) -> FloatArray:
    """Return a row's frames, float32 `[T, width]`, of its inputs `name` and `name_lens`."""
    length = int(row.inputs[f"{name}_lens"].item())
    most = math.ceil(MAX_STEP_S / frame_s)
    if not 0 <= length <= most:
        raise InvalidRequestError(
            f"{name}_lens takes 0 to {most} frames, those of {MAX_STEP_S:g} s; sent: {length}"
        )
    frames = row.inputs[name][:length]
    if length == 0:
        return np.zeros((0, width), np.float32)
    if frames.shape != (length, width):
        raise InvalidRequestError(
            f"{name} takes [frames, {width}] with at least {name}_lens frames; "
            f"sent: {list(row.inputs[name].shape)} and {length}"
        )
    if np.isnan(frames).any() or np.isposinf(frames).any():
        raise InvalidRequestError(f"{name} holds values that are not numbers below infinity")
    return frames


def outputs_of(hypotheses: Sequence[CtcHypothesis], frame_s: float) -> Outputs:
    """Return hypotheses as tensors; a frame has `frame_s` seconds."""
    words = [word for item in hypotheses for word in item.words]
    starts = np.array([word.start_frame for word in words]) * frame_s
    ends = np.array([word.end_frame for word in words]) * frame_s
    return {
        "hypotheses": bytes_array([item.text for item in hypotheses]),
        "scores": np.array([item.score for item in hypotheses], np.float32),
        "am_scores": np.array([item.am_score for item in hypotheses], np.float32),
        "lm_scores": np.array([item.lm_score for item in hypotheses], np.float32),
        "num_words": np.array([len(item.words) for item in hypotheses], np.int32),
        "words": bytes_array([word.text for word in words]),
        "word_starts": starts.astype(np.float32),
        "word_ends": ends.astype(np.float32),
        "word_confidences": np.array([word.confidence for word in words], np.float32),
    }
