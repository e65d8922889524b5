"""Deepgram's parameters of recognition, as options of Conch. Pure.

Each sets an option, or is a hint that changes nothing, or is refused by its name.
"""

import difflib
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from conch.client import OptionValue
from conch.gateway.errors import ApiError, invalid, named, one_of
from conch.gateway.listen import rate_of, values_of
from conch.gateway.live_audio import RAW
from conch.gateway.models import DEFAULT_MODEL, options_of
from conch.gateway.option_fields import phrase, wishes_among, with_openais
from conch.wire.errors import OptionError
from conch.wire.hotwords import DEFAULT_HOTWORD_WEIGHT, MAX_HOTWORD_WEIGHT
from conch.wire.languages import code_of, codes_of
from conch.wire.limits import clipped
from conch.wire.options import RecognitionOptions

OF_BOTH: dict[str, str] = {
    "model": "One of Deepgram's names means the default path; others are those of GET /v1/models.",
    "language": "en, en-US, …; multi detects it.",
    "language_hint": "Languages to choose among, with Whisper.",
    "encoding": "linear16, linear32, mulaw or alaw of raw samples; none, flac or opus of a file.",
    "sample_rate": "Hz of raw samples.",
    "channels": "Channels of raw samples; live 1.",
    "multichannel": "A text for each channel of a recording.",
    "punctuate": "Punctuation and case; without it words are bare.",
    "smart_format": "punctuate, and itn if the server has it.",
    "numerals": "Numbers in digits: itn.",
    "diarize": "Who says each word: speakers=auto.",
    "diarize_model": "The same; there is one model.",
    "keyterm": "Phrases to prefer: names.",
    "keywords": "Phrases to prefer, each with its boost: WORD:2.",
    "replace": "HEARD:WRITTEN.",
    "profanity_filter": "The text step of this name, which an operator adds.",
}
OF_LIVE_AUDIO: dict[str, str] = {
    "interim_results": "Results before they are final.",
    "endpointing": "Milliseconds of silence that end an utterance, or false: none is speech_final.",
    "utterance_end_ms": "Milliseconds after the last word to UtteranceEnd.",
    "vad_events": "SpeechStarted.",
}
OF_RECORDINGS: dict[str, str] = {
    "detect_language": "The language that was heard, or languages to choose among.",
    "utterances": "The answer has utterances.",
    "utt_split": "Seconds of silence between two utterances.",
    "paragraphs": "The answer has paragraphs.",
}
HINTS = ("extra", "filler_words", "mip_opt_out", "no_delay", "tag", "version")
"""Change no answer here."""
REFUSED = (
    *("callback", "callback_method", "custom_intent", "custom_intent_mode", "custom_topic"),
    *("custom_topic_mode", "detect_entities", "dictation", "intents", "measurements", "redact"),
    *("search", "sentiment", "summarize", "topics"),
)
"""Have no counterpart here, unless they say no."""
LISTS = (
    *("language_hint", "keyterm", "keywords", "replace", "detect_language", "extra", "tag"),
    *("custom_intent", "custom_topic", "redact", "search"),
)
"""May come again."""
_FLAGS = {"": False, "false": False, "0": False, "true": True, "1": True}
CONTAINER = "container"
"""Encoding of audio whose first bytes show its format."""
ENCODINGS: Mapping[str, str] = {
    "linear16": "pcm16",
    "linear32": "float32",
    "mulaw": "mulaw",
    "alaw": "alaw",
    **dict.fromkeys(("flac", "opus", "ogg-opus"), CONTAINER),
}
"""Encodings of Conch by Deepgram's."""
_MODELS = re.compile(r"(nova|enhanced|base|whisper)([-_].*)?|general|meeting|phonecall|voicemail")
"""Names of Deepgram's models."""
LEAST_ENDPOINT_MS = 100
"""Shortest silence that ends an utterance: Deepgram takes less, for which words are cut."""
_FIELDS = {
    "language": "language",
    "languages": "language_hint",
    "speakers": "diarize",
    "names": "keyterm",
    "replace": "replace",
    "post": "profanity_filter",
    "channels": "multichannel",
    "endpoint_silence_ms": "endpointing",
    "itn": "numerals",
}
"""Parameters by the options that they set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenParameters:
    model: str
    encoding: str
    """One of Conch's."""
    sample_rate: int
    """Hz of raw samples, and of those decoded from a container."""
    channels: int
    """Channels of raw samples."""
    options: RecognitionOptions
    wishes: Mapping[str, str]
    """Components, each with an option that is left out if the server lacks it."""
    is_punctuated: bool
    """Whether texts have punctuation and case."""
    has_interim: bool
    has_vad_events: bool
    tells_endpoints: bool
    """Whether a result may be the last of what was said."""
    utterance_end_s: float
    """Seconds without a word after which an utterance has ended; 0 for no such message."""
    has_utterances: bool
    utterance_split_s: float
    has_paragraphs: bool
    tells_language: bool


def parse(
    sent: Sequence[tuple[str, str]], aliases: Mapping[str, str], *, live: bool
) -> ListenParameters:
    """Return what a query asks for; raise an ApiError that names a wrong parameter."""
    own, others = OF_LIVE_AUDIO, OF_RECORDINGS
    if not live:
        own, others = others, own
    query = Query(sent, {*OF_BOTH, *own}, HINTS, {*OF_BOTH, *others, *REFUSED})
    name = query.text("encoding")
    encoding = ENCODINGS[one_of("encoding", name, tuple(ENCODINGS))] if name else CONTAINER
    if encoding in ("pcm16", "float32") and not query.text("sample_rate"):
        raise invalid("sample_rate", f"sample_rate is needed with encoding={name}")
    model = query.text("model") or DEFAULT_MODEL
    is_deepgrams = model not in aliases and _MODELS.fullmatch(model)
    chosen = {**({} if is_deepgrams else options_of(model, aliases)), **_options(query, live=live)}
    languages = codes_of(",".join(query.texts("language_hint")))
    if (detected := query.texts("detect_language")) and detected[0].lower() not in _FLAGS:
        languages = codes_of(",".join(detected))
    if len(languages) == 1:
        chosen.setdefault("language", languages[0])
    try:
        options, _ = with_openais(chosen, languages, "", live=live)
    except OptionError as error:
        raise named(error, _FIELDS) from None
    wished = ("punctuate", *(() if query.flag("numerals") else ("itn",)))
    return ListenParameters(
        model=model,
        encoding=encoding,
        sample_rate=rate_of(query.text("sample_rate"), encoding),
        channels=query.number("channels", 1, 1 if live and encoding in RAW else 64, otherwise=1),
        options=options,
        wishes=wishes_among([name for name in wished if name in chosen], options),
        is_punctuated=query.flag("punctuate") or query.flag("smart_format"),
        has_interim=query.flag("interim_results"),
        has_vad_events=query.flag("vad_events"),
        tells_endpoints=_FLAGS.get(query.text("endpointing").lower() or "true", True),
        utterance_end_s=query.number("utterance_end_ms", 100, 60_000) / 1000,
        has_utterances=query.flag("utterances"),
        utterance_split_s=query.decimal("utt_split", 0.8, 60.0),
        has_paragraphs=query.flag("paragraphs"),
        tells_language=bool(detected and detected[0].lower() not in ("", "false", "0")),
    )


def _options(query: "Query", *, live: bool) -> dict[str, OptionValue]:
    """Return the options that parameters set, but for those of the model and the languages."""
    chosen: dict[str, OptionValue] = {"word_timestamps": True}
    if (language := query.text("language").lower()) not in ("", "multi"):
        chosen["language"] = code_of(language)
    if query.flag("punctuate") or query.flag("smart_format"):
        chosen["punctuate"] = True
    if query.flag("numerals") or query.flag("smart_format"):
        chosen["itn"] = True
    if query.flag("diarize") or query.text("diarize_model").lower() not in ("", "false"):
        chosen["speakers"] = "auto"
    if names := ", ".join(filter(None, [*map(phrase, query.texts("keyterm")), *_boosted(query)])):
        chosen["names"] = names
    if rules := [*map(_replacement, query.texts("replace"))]:
        chosen["replace"] = ";".join(rules)
    if query.flag("profanity_filter"):
        chosen["post"] = "profanity_filter"
    if query.flag("multichannel"):
        if live:
            message = "multichannel takes false in a stream, which is mono; sent: true"
            raise invalid("multichannel", message)
        chosen["channels"] = "split"
    if query.text("endpointing").lower() not in _FLAGS:
        silence_ms = query.number("endpointing", 1, 10_000)
        chosen["endpoint_silence_ms"] = max(silence_ms, LEAST_ENDPOINT_MS)
    follows = "interim_results", "vad_events"
    if live and not (any(map(query.flag, follows)) or query.text("utterance_end_ms")):
        chosen["partials"] = False
    return chosen


def _boosted(query: "Query") -> list[str]:
    """Return the phrases of `keywords` with their weights."""
    names = []
    for sent in query.texts("keywords"):
        word, _, boost = sent.rpartition(":") if ":" in sent else (sent, "", "1")
        try:
            factor = float(boost[:20])
        except ValueError:
            factor = math.nan
        if not (plain := phrase(word)) or not 0 <= factor < math.inf:
            raise invalid(
                "keywords", f"keywords takes WORD or WORD:BOOST from 0; sent: {sent!r:.80}"
            )
        weight = min(factor * DEFAULT_HOTWORD_WEIGHT, MAX_HOTWORD_WEIGHT)
        names.append(plain if factor == 1 else f"{plain}:{weight:g}")
    return names


def _replacement(sent: str) -> str:
    """Return a rule of the option `replace`."""
    heard, colon, written = sent.partition(":")
    if not heard.strip() or not colon:
        raise invalid("replace", f"replace takes HEARD:WRITTEN; sent: {sent!r:.80}")
    escaped = (re.sub(r"\\|;|=>", r"\\\g<0>", form) for form in (heard, written))
    return "=>".join(escaped)


class Query:
    """The values of a query; its methods raise an ApiError for a wrong one."""

    def __init__(
        self,
        sent: Sequence[tuple[str, str]],
        taken: Collection[str],
        hints: Collection[str],
        refused: Collection[str],
    ) -> None:
        """Raise an ApiError for an unknown parameter, or one that is refused unless it says no."""
        self._sent = sent
        self._values = values_of(sent, LISTS)
        known = {*taken, *hints}
        for name, value in sent:
            if name in known:
                continue
            if name not in refused:
                raise _unknown(name, known)
            if _FLAGS.get(value.lower(), True):
                message = f"{name} has no counterpart here: leave it out"
                raise invalid(name, f"{message}; sent: {value!r:.80}")

    def text(self, name: str) -> str:
        return self._values.get(name, "").strip()

    def texts(self, name: str) -> list[str]:
        return [value.strip() for key, value in self._sent if key == name and value.strip()]

    def flag(self, name: str) -> bool:
        if (value := self.text(name).lower()) not in _FLAGS:
            raise invalid(name, f"{name} takes true or false; sent: {value!r:.80}")
        return _FLAGS[value]

    def number(self, name: str, low: int, high: int, *, otherwise: int = 0) -> int:
        """Return a whole number from `low` to `high`; `otherwise` for none."""
        if not (text := self.text(name)) or text.lower() == "false":
            return otherwise
        number = int(text[:9]) if text.isdecimal() and text.isascii() else -1
        if not low <= number <= high:
            takes = f"a whole number from {low} to {high}" if low < high else f"{low}"
            raise invalid(name, f"{name} takes {takes}; sent: {text!r:.80}")
        return number

    def decimal(self, name: str, otherwise: float, high: float) -> float:
        """Return a number from 0 to `high`; `otherwise` for none."""
        text = self.text(name)
        try:
            number = float(text[:20]) if text else otherwise
        except ValueError:
            number = -1.0
        if not 0 <= number <= high:
            raise invalid(name, f"{name} takes a number from 0 to {high:g}; sent: {text!r:.80}")
        return number


def _unknown(name: str, taken: Collection[str]) -> ApiError:
    """Return the error of a parameter that nobody knows, with the one that is close."""
    close = difflib.get_close_matches(name[:80].lower(), sorted(taken), n=1)
    shown = clipped(name)
    hint = f"did you mean '{close[0]}'?" if close else f"known are {', '.join(sorted(taken))}"
    return invalid(shown, f"unknown parameter '{shown}'; {hint}")
