"""Read the parameters of a call into the options of its CTC search."""

from collections.abc import Callable, Mapping
from typing import Any

from conch.decoding.beam import CtcSearchOptions
from conch.wire.errors import OptionError
from conch.wire.hotwords import DEFAULT_HOTWORD_WEIGHT, Hotword, as_ctc_writes, hotwords_of
from conch.wire.limits import MAX_TEXTS


def search_options(parameters: Mapping[str, Any]) -> CtcSearchOptions:
    """Return the search options of a call, which carries numbers with a fraction as strings."""
    default = CtcSearchOptions()
    return CtcSearchOptions(
        beam_size=_integer(parameters, "beam_size", default.beam_size, MAX_TEXTS),
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
    asks = _flag(parameters, "lattice")
    if asks and decoder_of(parameters) != "wfst":
        raise OptionError("option 'lattice' goes with decoder wfst; sent: lattice=true")
    return asks


def is_greedy(parameters: Mapping[str, Any]) -> bool:
    """Return whether a call needs the best path alone."""
    asks_more = parameters.get("lm_fusion") or str(parameters.get("hotwords", "")).strip()
    is_beam = decoder_of(parameters) == "ctc"
    return is_beam and parameters.get("beam_size") == 1 and not asks_more


def nbest_count(parameters: Mapping[str, Any]) -> int:
    return _integer(parameters, "nbest", 1, MAX_TEXTS)


def _flag(parameters: Mapping[str, Any], name: str) -> bool:
    value = parameters.get(name, False)
    if not isinstance(value, bool):
        raise OptionError(f"option '{name}' takes a bool; sent: {value!r:.40}")
    return value


def _integer(parameters: Mapping[str, Any], name: str, default: int, most: int) -> int:
    value = parameters.get(name, default)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not 1 <= value <= most:
        raise OptionError(f"option '{name}' takes an integer from 1 to {most}; sent: {value!r:.80}")
    return int(value)


def _number(parameters: Mapping[str, Any], name: str, default: float) -> float:
    value = parameters.get(name, default)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise OptionError(f"option '{name}' takes a number; sent: {value!r:.80}") from None
