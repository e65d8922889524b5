"""The options of one request: every default, range and meaning, in one frozen dataclass.

A request carries its options as Triton request parameters. Nothing falls back silently: an
unknown name, a wrong type or a value out of range is an `OptionError` that names the option,
what it takes and what was sent.
"""

import difflib
import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Literal, get_args, get_origin

from conch.errors import OptionError


def option(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    ctc: Any = None,
    ctc_only: bool = False,
) -> Any:
    """Return a dataclass field with what `parse`, `--help` and README.md tell about it.

    Args:
        default: without the option; with decoder=ctc it is `ctc`, where that is not None.
        help: one line.
        low, high: the closed range of a number.
        ctc: see default.
        ctc_only: an error with any other decoder.
    """
    metadata = {"help": help, "low": low, "high": high, "ctc": ctc, "ctc_only": ctc_only}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognitionOptions:
    """What one request asks for; the defaults are what a request without options gets."""

    mode: Literal["auto", "offline", "streaming", "two_pass"] = option(
        "auto", "the road; auto is streaming for a stream's chunks, else offline"
    )
    decoder: Literal["attention", "ctc"] = option(
        "attention", "which decoder writes the text; ctc costs least"
    )
    language: str = option("auto", "language code of the speech (en, de, …), or auto")
    beam_size: int = option(
        5, "live hypotheses of the beam search; at most 32 with attention", low=1, high=128, ctc=16
    )
    nbest: int = option(1, "hypotheses to return, best first; at most beam_size", low=1, high=128)
    lm_fusion: bool = option(
        False, "the language model takes part in the search (shallow fusion)", ctc_only=True
    )
    rescore: bool = option(False, "rescore the n-best with the language model")
    # Both chosen by training/tune_rescoring.py on the dev split of docs/benchmarks.md.
    lm_weight: float = option(
        0.01,
        "weight of the language model's score, in fusion and rescoring",
        low=0,
        high=10,
        ctc=1.0,
    )
    word_bonus: float = option(
        0.0, "added for each word, in fusion and rescoring", low=-20, high=20, ctc=4.5
    )
    attention_rescore: bool = option(
        False, "rescore the n-best with Whisper's decoder", ctc_only=True
    )
    attention_weight: float = option(
        1.0, "weight of the attention decoder's score, with attention_rescore", low=0, high=10
    )
    hotwords: str = option(
        "",
        "phrases to prefer, parted by commas, each with a weight if you like: Conch:8, Triton",
        ctc_only=True,
    )
    hotword_weight: float = option(
        5.0, "of a hotword without its own: nats for each time it is found", low=0, high=100
    )
    word_timestamps: bool = option(False, "start, end and confidence of every word")
    vad: bool = option(True, "find the speech first; without, all of the audio is decoded")
    vad_threshold: float = option(
        0.5, "speech probability that opens a region", low=0.01, high=0.99
    )
    vad_min_speech_ms: int = option(100, "shorter regions are dropped", low=0, high=10_000)
    vad_min_silence_ms: int = option(500, "silence that closes a region", low=32, high=10_000)
    vad_pad_ms: int = option(300, "audio kept on each side of a region", low=0, high=2_000)
    max_segment_s: float = option(
        25.0,
        "longest segment sent to the encoder; with vad at least 4 times vad_pad_ms",
        low=1,
        high=30,
    )
    partials: bool = option(True, "of a stream: what is said before it is final")
    endpointing: bool = option(True, "of a stream: end utterances by the three rules below")
    endpoint_silence_ms: int = option(
        1000, "rule silence: so much of it after speech", low=100, high=10_000
    )
    endpoint_no_speech_ms: int = option(
        5000, "rule no_speech: so much silence before anybody speaks", low=500, high=60_000
    )
    max_utterance_s: float = option(
        20.0, "rule length: the longest utterance of a stream", low=2, high=28
    )
    deadline_ms: int = option(
        0, "time budget of the request, of a stream's each chunk; 0 is none", low=0, high=86_400_000
    )

    @classmethod
    def parse(cls, parameters: Mapping[str, Any], *, streams: bool = False) -> "RecognitionOptions":
        """Build options from request parameters, of a stream's START or of a recording.

        Raises:
            OptionError: an unknown name, a wrong type, a value out of range, or two options
                that contradict each other.
        """
        known = {item.name: item for item in fields(cls)}
        for name in parameters:
            if name not in known:
                raise OptionError(_unknown_name(name, list(known)))
        sent = {name: _checked(known[name], value) for name, value in parameters.items()}
        mode = sent.get("mode", "auto")
        if mode == "auto":
            mode = sent["mode"] = "streaming" if streams else "offline"
        if streams != (mode in ("streaming", "two_pass")):
            what = "a stream's chunks" if streams else "a request without a sequence id"
            raise OptionError(f"option 'mode' of {what} cannot be {mode}")
        decoder = sent.setdefault("decoder", "ctc" if mode == "streaming" else "attention")
        if mode == "streaming" and decoder != "ctc":
            raise OptionError(f"option 'decoder' is ctc with mode streaming; sent: {decoder!r}")
        if decoder == "ctc":
            sent = _ctc_defaults() | sent
        options = cls(**sent)
        for name, item in known.items():
            searches = decoder == "ctc" or (mode == "two_pass" and name != "attention_rescore")
            if item.metadata["ctc_only"] and getattr(options, name) and not searches:
                raise OptionError(f"option '{name}' goes with decoder ctc; decoder is {decoder}")
        if options.attention_rescore and mode == "streaming":
            raise OptionError("option 'attention_rescore' goes with mode two_pass, not streaming")
        if options.lm_fusion and options.rescore and decoder == "ctc":
            raise OptionError(
                "option 'rescore' is for texts that the language model has not seen yet; "
                "with lm_fusion it has: send one of them"
            )
        if decoder == "attention" and options.beam_size > 32:
            raise OptionError(
                f"option 'beam_size' takes at most 32 with decoder attention; "
                f"sent: {options.beam_size}"
            )
        if options.nbest > options.beam_size:
            raise OptionError(
                f"option 'nbest' takes at most beam_size ({options.beam_size}); "
                f"sent: {options.nbest}; raise beam_size to get more hypotheses"
            )
        if options.vad and options.max_segment_s < 4 * options.vad_pad_ms / 1000:
            raise OptionError(
                "option 'max_segment_s' takes at least four times vad_pad_ms "
                f"({options.vad_pad_ms} ms); sent: {options.max_segment_s:g}"
            )
        return options

    def of_first_pass(self) -> "RecognitionOptions":
        """Return what a stream's search goes by: the options themselves, or CTC's defaults."""
        if self.decoder == "ctc":
            return self
        return replace(self, **_ctc_defaults(), decoder="ctc", rescore=False, nbest=1)


def _ctc_defaults() -> dict[str, Any]:
    own = {item.name: item.metadata["ctc"] for item in fields(RecognitionOptions)}
    return {name: value for name, value in own.items() if value is not None}


def describe(item: "Field[Any]") -> str:
    """Return the type and range of an option in words, as error messages and `--help` show it."""
    if get_origin(item.type) is Literal:
        return "one of " + ", ".join(get_args(item.type))
    names = {bool: "a bool (true or false)", int: "an integer", float: "a number", str: "a string"}
    text = names[item.type]  # type: ignore[index]
    low, high = item.metadata["low"], item.metadata["high"]
    return text if low is None else f"{text} from {low:.10g} to {high:.10g}"


def default_of(item: "Field[Any]") -> str:
    """Return the default of an option in words, as `--help` and README.md show it."""
    default = str(item.default).lower() if isinstance(item.default, bool) else str(item.default)
    own = item.metadata["ctc"]
    return (default or "none") + ("" if own is None else f"; with ctc {own}")


def _unknown_name(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean '{close[0]}'?" if close else f"; the options are {', '.join(known)}"
    return f"unknown option '{name}'{hint}"


def _checked(item: "Field[Any]", value: Any) -> Any:
    if not _fits(item, value):
        raise OptionError(f"option '{item.name}' takes {describe(item)}; sent: {value!r:.80}")
    return float(value) if item.type is float else value


def _fits(item: "Field[Any]", value: Any) -> bool:
    if get_origin(item.type) is Literal:
        return value in get_args(item.type)
    if item.type in (bool, str):
        return isinstance(value, item.type)
    # bool is an int to Python, but not to someone who sends nbest=true.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if item.type is int and not isinstance(value, int):
        return False
    low, high = item.metadata["low"], item.metadata["high"]
    return math.isfinite(value) and low <= value <= high
