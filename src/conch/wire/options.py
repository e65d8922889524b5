"""The options of one request: every default, range and meaning, in one frozen dataclass.

A request carries its options as Triton request parameters. An unknown name, a wrong type or a
value out of range raises an `OptionError`. The error names the option, its range and the value
that was sent.
"""

import difflib
import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Literal, get_args, get_origin

from conch.wire.errors import OptionError


def option(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    ctc: Any = None,
    wfst: Any = None,
    decoders: tuple[str, ...] = (),
) -> Any:
    """Return a dataclass field with the metadata for `parse`, `--help` and docs/guide/options.md.

    Args:
        default: Value if the option is not sent.
        help: Meaning, in one line.
        low: Smallest number.
        high: Largest number.
        ctc: Default with decoder ctc, and with wfst if `wfst` is None.
        wfst: Default with decoder wfst.
        decoders: Decoders that take the option; empty for all.
    """
    own = {"ctc": ctc, "wfst": ctc if wfst is None else wfst}
    metadata = {"help": help, "low": low, "high": high, "own": own, "decoders": decoders}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecognitionOptions:
    """The options of one request, with their defaults."""

    mode: Literal["auto", "offline", "streaming", "two_pass"] = option(
        "auto", "the path; auto is streaming for live audio, offline for a recording"
    )
    decoder: Literal["attention", "ctc", "wfst"] = option(
        "attention",
        "what writes the text: Whisper, a beam search over CTC, or CTC in a graph of known words; "
        "live text comes from wfst, and from ctc with hotwords or lm_fusion",
    )
    channels: Literal["mix", "split"] | int = option(
        "mix",
        "of a recording: mix all channels into one, transcribe each by itself (at most 8), or "
        "take one by its number",
        low=1,
        high=64,
    )
    language: str = option("auto", "language code of the speech (en, de, …); auto detects it")
    beam_size: int = option(
        5,
        "hypotheses that the search keeps, at most 32 with attention; with wfst those to rescore",
        low=1,
        high=128,
        ctc=16,
    )
    nbest: int = option(1, "hypotheses to return, best first; at most beam_size", low=1, high=128)
    lm_fusion: bool = option(
        False,
        "the language model takes part in the search (shallow fusion)",
        decoders=("ctc",),
    )
    rescore: bool = option(
        False,
        "score the candidates again with the rescorer's model; with wfst, its score replaces the "
        "graph's",
    )
    # Chosen by lab/training/tune_rescoring.py, for ctc by lab/training/tune_ctc.py: see
    # docs/notes/decoding.md.
    lm_weight: float = option(
        0.01,
        "weight of the language model's score in fusion and rescoring",
        low=0,
        high=10,
        ctc=0.8,
        wfst=1.0,
    )
    word_bonus: float = option(
        0.0,
        "score added for each word in fusion and rescoring",
        low=-20,
        high=20,
        ctc=1.5,
        wfst=0.0,
    )
    attention_rescore: bool = option(
        False, "rescore the n-best with Whisper's decoder", decoders=("ctc", "wfst")
    )
    attention_weight: float = option(
        1.0, "weight of the attention decoder's score, with attention_rescore", low=0, high=10
    )
    hotwords: str = option(
        "",
        "phrases to prefer, separated by commas, each with or without a weight: Conch:8, Triton",
        decoders=("ctc",),
    )
    hotword_weight: float = option(
        10.0,
        "weight of a hotword without its own: a higher one finds more, and invents more",
        low=0,
        high=100,
    )
    word_timestamps: bool = option(False, "start, end and confidence of every word")
    vad: bool = option(
        True,
        "find the speech first; without it, all of a recording is decoded, and the letters of the "
        "CTC model tell where a live speaker pauses",
    )
    vad_threshold: float = option(
        0.5, "speech probability at which a stretch of speech begins", low=0.01, high=0.99
    )
    vad_min_speech_ms: int = option(
        100, "shorter stretches of speech are dropped", low=0, high=10_000
    )
    vad_min_silence_ms: int = option(
        500, "silence that ends a stretch of speech", low=32, high=10_000
    )
    vad_pad_ms: int = option(300, "audio kept on each side of the speech", low=0, high=2_000)
    coverage: bool = option(
        True,
        "with attention: find speech that the text leaves out, and decode it again",
    )
    max_segment_s: float = option(
        25.0,
        "longest segment; with vad at least 4 times vad_pad_ms",
        low=1,
        high=30,
    )
    partials: bool = option(True, "live: send text before it is final")
    endpointing: bool = option(
        True,
        "live: end utterances by the rules endpoint_silence_ms, endpoint_no_speech_ms and "
        "max_utterance_s",
    )
    endpoint_silence_ms: int = option(
        1000,
        "live, rule silence: silence after speech that ends an utterance",
        low=100,
        high=10_000,
    )
    endpoint_no_speech_ms: int = option(
        5000, "live, rule no_speech: silence before anybody speaks", low=500, high=60_000
    )
    max_utterance_s: float = option(
        20.0, "live, rule length: the longest utterance", low=2, high=28
    )
    deadline_ms: int = option(
        0,
        "time budget of a request, or of each live chunk; a live chunk that misses it ends the "
        "stream; 0 is none",
        low=0,
        high=86_400_000,
    )

    @classmethod
    def parse(cls, parameters: Mapping[str, Any], *, live: bool = False) -> "RecognitionOptions":
        """Build options from request parameters.

        Args:
            parameters: The options that were sent, by name.
            live: Whether they belong to the first chunk of a live stream, not to a recording.

        Raises:
            OptionError: an unknown name, a wrong type, a value out of range, or two options
                that contradict each other.
        """
        known = {item.name: item for item in fields(cls)}
        for name in parameters:
            if name not in known:
                raise OptionError(_unknown_name(name, list(known)))
        sent = {name: _checked(known[name], value) for name, value in parameters.items()}
        if sent.get("mode", "auto") == "auto":
            sent["mode"] = "streaming" if live else "offline"
        if live != (sent["mode"] in ("streaming", "two_pass")):
            what = "a stream's chunks" if live else "a request without a sequence id"
            raise OptionError(f"option 'mode' of {what} cannot be {sent['mode']}")
        if sent["mode"] == "streaming":
            sent.setdefault("decoder", _live_decoder(sent))
        sent.setdefault("decoder", cls().decoder)
        options = cls(**_defaults_of(sent["decoder"]) | sent)
        for name, item in known.items():
            if getattr(options, name) and not options._is_followed(name, item.metadata["decoders"]):
                wanted = " or ".join(item.metadata["decoders"])
                raise OptionError(
                    f"option '{name}' goes with decoder {wanted}; decoder is {options.decoder}"
                )
        if problem := options._contradiction():
            raise OptionError(problem)
        return options

    def _is_followed(self, name: str, decoders: tuple[str, ...]) -> bool:
        """Return whether one of the passes uses an option of these decoders."""
        if not decoders or self.decoder in decoders:
            return True
        # If the second pass uses attention, the first one uses ctc or wfst.
        is_first = self.mode == "two_pass" and self.decoder == "attention"
        return is_first and name != "attention_rescore"

    def _contradiction(self) -> str | None:
        """Return the error message for two options that exclude each other, or None."""
        if self.channels != "mix" and self.mode != "offline":
            return f"option 'channels' is for recordings, a stream is mono; sent: {self.channels}"
        if self.mode == "streaming" and self.decoder == "attention":
            return "option 'decoder' takes ctc or wfst with mode streaming; sent: attention"
        if self.mode == "streaming" and self.attention_rescore:
            return "option 'attention_rescore' goes with mode two_pass, not streaming"
        if self.mode == "two_pass" and not self.endpointing:
            return "option 'endpointing' cannot be false with mode two_pass: it passes utterances"
        if self.rescore and self.decoder == "ctc" and self.lm_fusion:
            return (
                "option 'rescore' is for texts that the language model has not seen yet; with "
                "lm_fusion it has"
            )
        if self.rescore and self.decoder == "wfst" and self.mode == "streaming":
            return (
                "option 'rescore' with decoder wfst goes with mode two_pass, not streaming: there "
                "the words are told as stable before an utterance can be rescored"
            )
        if self.decoder == "attention" and self.beam_size > 32:
            return (
                f"option 'beam_size' takes at most 32 with decoder attention; "
                f"sent: {self.beam_size}"
            )
        if self.nbest > self.beam_size:
            return (
                f"option 'nbest' takes at most beam_size ({self.beam_size}); "
                f"sent: {self.nbest}; raise beam_size to get more hypotheses"
            )
        if self.vad and self.max_segment_s < 4 * self.vad_pad_ms / 1000:
            return (
                "option 'max_segment_s' takes at least four times vad_pad_ms "
                f"({self.vad_pad_ms} ms); sent: {self.max_segment_s:g}"
            )
        return None

    def of_first_pass(self) -> "RecognitionOptions":
        """Return the options of the live search: of two passes, those of the first."""
        if self.mode != "two_pass":
            return self
        first = replace(self, rescore=False, attention_rescore=False, nbest=1)
        if self.decoder != "attention":
            return first
        decoder = _live_decoder({"hotwords": self.hotwords, "lm_fusion": self.lm_fusion})
        # An option with the default of attention was most likely not sent.
        unchosen = RecognitionOptions()
        own = _defaults_of(decoder).items()
        changed = {k: v for k, v in own if getattr(self, k) == getattr(unchosen, k)}
        return replace(first, decoder=decoder, **changed)


def _live_decoder(sent: Mapping[str, Any]) -> Literal["ctc", "wfst"]:
    """Return the default decoder of live audio: wfst, or ctc if an option needs it."""
    return "ctc" if sent.get("hotwords") or sent.get("lm_fusion") else "wfst"


def _defaults_of(decoder: str) -> dict[str, Any]:
    """Return a decoder's own defaults, where they differ from those of the fields."""
    if decoder == "attention":
        return {}
    own = {item.name: item.metadata["own"][decoder] for item in fields(RecognitionOptions)}
    return {name: value for name, value in own.items() if value is not None}


def describe(item: "Field[Any]") -> str:
    """Return the type and range of an option in words, for error messages and `--help`."""
    names = {bool: "a bool (true or false)", int: "an integer", float: "a number", str: "a string"}
    words, kind = words_of(item), kind_of(item)
    if kind is None:
        return "one of " + ", ".join(words)
    low, high = item.metadata["low"], item.metadata["high"]
    text = names[kind] if low is None else f"{names[kind]} from {low:.10g} to {high:.10g}"
    return ", ".join(words) + f" or {text}" if words else text


def words_of(item: "Field[Any]") -> tuple[str, ...]:
    """Return the words that an option takes; empty if it takes any value of its type."""
    kinds = (item.type, *get_args(item.type))
    return next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), ())


def kind_of(item: "Field[Any]") -> type | None:
    """Return the type of the values that an option takes beside words, or None."""
    kinds = (item.type, *get_args(item.type))
    return next((kind for kind in kinds if isinstance(kind, type)), None)


def default_of(item: "Field[Any]") -> str:
    """Return the default of an option in words, for `--help` and docs/guide/options.md."""
    default = str(item.default).lower() if isinstance(item.default, bool) else str(item.default)
    own = {name: value for name, value in item.metadata["own"].items() if value is not None}
    if len(own) == 2 and own["ctc"] == own["wfst"]:
        own = {"ctc or wfst": own["ctc"]}
    return "; ".join([default or "none", *(f"with {name} {value}" for name, value in own.items())])


def _unknown_name(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean '{close[0]}'?" if close else f"; the options are {', '.join(known)}"
    return f"unknown option '{name}'{hint}"


def _checked(item: "Field[Any]", value: Any) -> Any:
    if words_of(item) and kind_of(item) is int and isinstance(value, str):
        # Command lines and HTTP headers send numbers as text.
        value = int(value) if value.isdecimal() and len(value) < 10 else value
    if not _fits(item, value):
        raise OptionError(f"option '{item.name}' takes {describe(item)}; sent: {value!r:.80}")
    return float(value) if item.type is float else value


def _fits(item: "Field[Any]", value: Any) -> bool:
    kind = kind_of(item)
    if isinstance(value, str) and value in words_of(item):
        return True
    if kind is None:
        return False
    if kind in (bool, str):
        return isinstance(value, kind)
    # In Python bool is an int, but nbest=true is a mistake.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if kind is int and not isinstance(value, int):
        return False
    low, high = item.metadata["low"], item.metadata["high"]
    return math.isfinite(value) and low <= value <= high
