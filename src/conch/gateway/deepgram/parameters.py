"""Deepgram's parameters, as options of Conch. Pure.

Each sets an option, or is a hint that changes nothing, or is refused by its name.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Literal, TypeVar

from conch.client import OptionValue
from conch.families.options import option
from conch.gateway.errors import invalid, named, wrong
from conch.gateway.listen import values_of
from conch.gateway.live_audio import default_rate
from conch.gateway.models import DEFAULT_MODEL, options_of
from conch.gateway.option_fields import phrase, with_openais
from conch.wire.errors import OptionError
from conch.wire.hotwords import DEFAULT_HOTWORD_WEIGHT
from conch.wire.languages import code_of, codes_of
from conch.wire.option_values import checked, options_of_text
from conch.wire.options import RecognitionOptions

HINTS = ("extra", "filler_words", "mip_opt_out", "no_delay", "tag", "version")
"""Change no answer here."""
REFUSED = (
    *("bit_rate", "callback", "callback_method", "detect_entities", "dictation", "intents"),
    *("measurements", "paragraphs", "redact", "search", "sentiment", "summarize", "topics"),
)
"""Have no counterpart here, unless they say no."""
LISTS = ("keyterm", "keywords", "language_hint", "replace")
"""May come again; a line each."""
LEAST_ENDPOINT_MS = 100
"""Shortest silence that ends an utterance; clients send less."""
_RAW = {"linear16": "pcm16", "linear32": "float32", "mulaw": "mulaw", "alaw": "alaw"}
_FIELDS = {
    "post": "profanity_filter",
    "itn": "numerals",
    "speakers": "diarize",
    "languages": "language_hint",
    "channels": "multichannel",
}
"""Parameters by the options of other names that they set."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Parameters of recordings and of live audio."""

    MODELS: ClassVar = re.compile(
        r"(2-)?((nova|enhanced|base|whisper|general)([-_].*)?|meeting|phonecall|voicemail|finance|"
        r"conversationalai|video|custom)"
    )
    """Names of Deepgram's models."""

    model: str = option(DEFAULT_MODEL, "one of GET /v1/models; Deepgram's names mean the default")
    language: str = option("", "en, en-US, …; multi detects it")
    language_hint: str = option("", "languages to choose among, with Whisper")
    encoding: Literal["linear16", "linear32", "mulaw", "alaw", "flac", "opus", "ogg-opus"] = option(
        None, "of raw samples", otherwise="the first bytes show the container"
    )
    sample_rate: int | None = option(
        None, "Hz of raw samples", low=4000, high=192_000, otherwise="8000 with mulaw and alaw"
    )
    channels: int = option(1, "channels of raw samples; of live audio 1", low=1, high=64)
    multichannel: bool = option(False, "a text for each channel of a recording: channels=split")
    punctuate: bool = option(False, "punctuation and case; without it words are bare")
    smart_format: bool = option(False, "the same, and numbers in digits if the server has itn")
    numerals: bool = option(False, "numbers in digits: itn")
    diarize: bool = option(False, "who says each word: speakers=auto")
    diarize_model: str = option("", "the same")
    keyterm: str = option("", "a phrase to prefer: names")
    keywords: str = option("", "a phrase to prefer, with a boost: Conch:2")
    replace: str = option("", "HEARD:WRITTEN")
    profanity_filter: bool = option(False, "the text step of this name, which an operator adds")

    @property
    def own_encoding(self) -> str:
        return _RAW.get(self.encoding, "container")

    @property
    def own_rate(self) -> int:
        """Hz of the samples, also of those decoded from a container."""
        return self.sample_rate or default_rate(self.own_encoding)

    @property
    def writes_case(self) -> bool:
        """Whether texts have punctuation and case."""
        return self.punctuate or self.smart_format


@dataclass(frozen=True, kw_only=True)
class StreamParameters(Parameters, ABC):
    """Parameters of all live audio."""

    @property
    @abstractmethod
    def live_options(self) -> dict[str, OptionValue]:
        """The options that live audio alone has."""


@dataclass(frozen=True, kw_only=True)
class LiveParameters(StreamParameters):
    interim_results: bool = option(False, "results before they are final")
    endpointing: Literal["true", "false"] | int = option(
        "true",
        "milliseconds of silence that end an utterance: endpoint_silence_ms; with false "
        "no pause makes one speech_final",
        low=0,
        high=10_000,
    )
    utterance_end_ms: int = option(0, "silence before UtteranceEnd; 0 for none", low=0, high=60_000)
    vad_events: bool = option(False, "SpeechStarted")

    @property
    def live_options(self) -> dict[str, OptionValue]:
        follows = self.interim_results or self.vad_events or self.utterance_end_ms
        chosen: dict[str, OptionValue] = {"partials": bool(follows)}
        if self.vad_events:
            chosen |= {"turn_events": True, "eager_end_threshold": 1.0}
        if isinstance(self.endpointing, int):
            chosen["endpoint_silence_ms"] = max(self.endpointing, LEAST_ENDPOINT_MS)
        return chosen


@dataclass(frozen=True, kw_only=True)
class FileParameters(Parameters):
    detect_language: bool = option(False, "the answer has the language")
    utterances: bool = option(False, "the answer has utterances")
    utt_split: float = option(0.8, "seconds of silence between utterances", low=0.1, high=60)


def read(cls: type[T], sent: Sequence[tuple[str, str]]) -> T:
    """Return the parameters in a query; raise an ApiError or OptionError for a wrong one."""
    for name, value in sent:
        if name in REFUSED and value.lower() not in ("", "false"):
            raise invalid(name, f"{name} has no counterpart here: leave it out")
    pairs = [
        (name, value.lower() if value in ("True", "False") else value)
        for name, value in sent
        if name not in (*HINTS, *REFUSED)
    ]
    values = values_of(pairs, repeated=LISTS)
    for name in values.keys() & {*LISTS}:
        values[name] = "\n".join(value for key, value in pairs if key == name)
    known = {item.name: item for item in fields(cls)}  # type: ignore[arg-type]
    return cls(**checked(known, options_of_text(values, known, others=HINTS)))


def recognition_options(asked: Parameters, aliases: Mapping[str, str]) -> RecognitionOptions:
    """Return the options that parameters set; raise an ApiError for a wrong one."""
    live = isinstance(asked, StreamParameters)
    if asked.encoding in ("linear16", "linear32") and asked.sample_rate is None:
        raise invalid("sample_rate", f"sample_rate is needed with encoding={asked.encoding}")
    for name, most in (("channels", 1), ("multichannel", False)):
        if live and getattr(asked, name) > most:
            raise invalid(name, f"{name} takes {most} in a stream, which is mono".lower())
    is_deepgrams = asked.model not in aliases and asked.MODELS.fullmatch(asked.model)
    chosen = dict({} if is_deepgrams else options_of(asked.model, aliases))
    chosen |= {"word_timestamps": True, **_texts(asked)}
    languages = codes_of(",".join(asked.language_hint.splitlines()))
    if asked.language and asked.language != "multi":
        chosen["language"] = code_of(asked.language)
    elif len(languages) == 1:
        chosen["language"] = languages[0]
    if isinstance(asked, StreamParameters):
        chosen |= asked.live_options
    try:
        return with_openais(chosen, languages, "", live=live)[0]
    except OptionError as error:
        of_names = "keywords" if asked.keywords else "keyterm"
        raise named(error, {**_FIELDS, "names": of_names}) from None


def _texts(asked: Parameters) -> dict[str, OptionValue]:
    names = [*map(phrase, asked.keyterm.splitlines()), *map(_boosted, asked.keywords.splitlines())]
    chosen: dict[str, OptionValue] = {
        "names": ", ".join(filter(None, names)),
        "replace": ";".join(map(_rule, asked.replace.splitlines())),
        "punctuate": asked.writes_case,
        "itn": asked.numerals or asked.smart_format,
        "speakers": "auto" if asked.diarize or asked.diarize_model not in ("", "false") else "",
        "post": "profanity_filter" if asked.profanity_filter else "",
        "channels": "split" if asked.multichannel else "",
    }
    return {name: value for name, value in chosen.items() if value}


def _boosted(sent: str) -> str:
    word, _, boost = sent.rpartition(":") if ":" in sent else (sent, "", "1")
    try:
        return f"{phrase(word)}:{min(float(boost[:9]) * DEFAULT_HOTWORD_WEIGHT, 100):g}"
    except ValueError:
        raise wrong("keywords", "WORD:BOOST", sent) from None


def _rule(sent: str) -> str:
    heard, colon, written = sent.partition(":")
    if not colon:
        raise wrong("replace", "HEARD:WRITTEN", sent)
    return "=>".join(re.sub(r"\\|;|=>", r"\\\g<0>", form) for form in (heard, written))
