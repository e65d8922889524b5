"""The configuration of a realtime session: OpenAI's fields, and Conch's options made of them.

The fields are those of the GA API and of its beta, which has other names for them. An update
changes the fields that it names and leaves the rest.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from conch.client import OptionValue
from conch.gateway.errors import ApiError, api_error, invalid, wrong
from conch.gateway.models import DEFAULT_MODEL, options_of
from conch.gateway.option_fields import NAMES, known_speakers, phrase, with_openais
from conch.wire.errors import OptionError
from conch.wire.known_speakers import without_voices
from conch.wire.languages import code_of, codes_of
from conch.wire.options import RecognitionOptions

LOGPROBS = "item.input_audio_transcription.logprobs"
"""Name in `include` of the log probabilities of the words."""
PARTIALS = "conch.partial"
"""Name in `include` of Conch's events with the words that may still change."""
PCM_RATES = (8_000, 48_000)
"""Lowest and highest sample rate of 16-bit samples."""
TELEPHONE_RATE = 8_000
"""Sample rate of G.711."""


class Delay(NamedTuple):
    """The options that OpenAI's `delay` sets."""

    rolling_pass_ms: int
    """Audio between two passes over the open utterance: a later pass makes surer words firm."""
    silence_ms: int
    """Silence that ends a turn, unless the turn detection sets it."""


DELAYS: Mapping[str, Delay] = {
    "minimal": Delay(640, 300),
    "low": Delay(960, 400),
    "medium": Delay(1280, 500),
    "high": Delay(2560, 800),
    "xhigh": Delay(5120, 1200),
}
EAGERNESS_MS: Mapping[str, int] = {"low": 2000, "medium": 1500, "auto": 1500, "high": 1000}
"""Silence that ends a turn at the latest, by `eagerness` of `semantic_vad`; with low it alone does:
docs/notes/endpoints.md."""

_BETA_FORMATS = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
_BETA_NAMES = {
    "format": "input_audio_format",
    "noise_reduction": "input_audio_noise_reduction",
    "transcription": "input_audio_transcription",
    "turn_detection": "turn_detection",
}
_FIELDS = {
    "decoder": "transcription.model",
    "language": "transcription.language",
    "languages": "transcription.languages",
    "prompt": "transcription.prompt",
    "names": "transcription.keywords",
    "known_speakers": f"transcription.{NAMES[0]}",
    "rolling_pass_ms": "transcription.delay",
    "vad_threshold": "turn_detection.threshold",
    "vad_pad_ms": "turn_detection.prefix_padding_ms",
    "endpoint_silence_ms": "turn_detection.silence_duration_ms",
    "semantic_endpointing": "turn_detection.type",
}
"""Field of OpenAI's API that sets an option, below `session.audio.input`."""


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """How the samples of a session are sent."""

    type: str = "audio/pcm"
    """16-bit little-endian samples, or G.711 mu-law or A-law."""
    rate: int = 24_000
    """Samples a second."""

    @property
    def encoding(self) -> str:
        """Return the encoding of `RawDecoder`."""
        return {"audio/pcm": "pcm16", "audio/pcmu": "mulaw", "audio/pcma": "alaw"}[self.type]


_FORMATS = {
    "audio/pcm": AudioFormat(),
    "audio/pcmu": AudioFormat("audio/pcmu", TELEPHONE_RATE),
    "audio/pcma": AudioFormat("audio/pcma", TELEPHONE_RATE),
}


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """The configuration of a session; an update gives a new one."""

    format: AudioFormat = field(default_factory=AudioFormat)
    noise_reduction: Mapping[str, Any] | None = None
    """Noise reduction as sent. It changes nothing: Conch's models are trained with noise."""
    transcription: Mapping[str, Any] = field(default_factory=dict)
    """Fields as sent: model, language, languages, prompt, keywords and delay."""
    turn_detection: Mapping[str, Any] | None = field(default_factory=lambda: {"type": "server_vad"})
    """Turn detection as sent; None if the client commits its turns."""
    include: tuple[str, ...] = ()
    own: Mapping[str, OptionValue] = field(default_factory=dict)
    """Options of Conch under `session.conch`. They override those that OpenAI's fields set."""

    @property
    def is_manual(self) -> bool:
        """Whether the client commits its turns."""
        return self.turn_detection is None

    def updated(self, session: Any, aliases: Mapping[str, str]) -> "SessionConfig":
        """Return the configuration after an update in GA or beta form, or raise an ApiError."""
        if not isinstance(session, dict):
            raise wrong("session", "an object", session)
        if (session_type := session.get("type", "transcription")) != "transcription":
            raise wrong(
                "session.type", "transcription: there are no other sessions here", session_type
            )
        audio = _object("session.audio", session.get("audio"))
        inputs = _object("session.audio.input", audio.get("input"))
        config = self
        for name, beta_name in _BETA_NAMES.items():
            for key, sent, prefix in ((beta_name, session, ""), (name, inputs, "audio.input.")):
                if key in sent:
                    value = config._read(name, f"session.{prefix}{key}", sent[key])
                    config = replace(config, **{name: value})
        if "include" in session:
            sent = session["include"]
            requested = [] if sent is None else _texts("session.include", sent)
            known = tuple(name for name in (LOGPROBS, PARTIALS) if name in requested)
            config = replace(config, include=known)
        if "conch" in session:
            sent = session["conch"]
            own = {} if sent is None else {**self.own, **_object("session.conch", sent)}
            own = {name: value for name, value in own.items() if value is not None}
            config = replace(config, own=own)
        config.options(aliases)
        return config

    def _read(self, name: str, path: str, value: Any) -> Any:
        """Return the new value of a part of `audio.input`."""
        if value is None:
            return {"format": AudioFormat(), "transcription": {}}.get(name)
        if name == "format":
            return _read_format(self.format, path, value)
        if name == "noise_reduction":
            return _merged(self.noise_reduction or {}, path, value, _NOISE_REDUCTION)
        if name == "transcription":
            return _merged(self.transcription, path, value, _TRANSCRIPTION)
        _object(path, value)
        before = self.turn_detection or {"type": "server_vad"}
        detection_type = _choice(
            f"{path}.type", value.get("type", before["type"]), tuple(_TURN_DETECTION)
        )
        if detection_type != before["type"]:
            before = {"type": detection_type}
        return _merged(before, path, value, _TURN_DETECTION[detection_type])

    def options(self, aliases: Mapping[str, str]) -> RecognitionOptions:
        """Return the options of live streams; raise an ApiError if they do not go together."""
        said = self.transcription
        try:
            chosen = dict(options_of(said.get("model") or "", aliases))
        except ApiError as error:
            error.param = "session.audio.input.transcription.model"
            raise
        languages = codes_of(",".join(said.get("languages") or []))
        only = languages[0] if len(languages) == 1 else ""
        if (language := code_of(said.get("language") or only)) != "auto":
            chosen["language"] = language
        if "delay" in said:
            chosen["rolling_pass_ms"] = DELAYS[said["delay"]].rolling_pass_ms
        if (turns := self._turns) is not None:
            # That speech begins is told before its words; the rest, if `session.conch` asks for it.
            chosen |= {"turn_events": True, "eager_end_threshold": 1.0, **_turn_options(turns)}
        names, references = (said.get(name) or () for name in NAMES)
        chosen |= known_speakers(names, references, "session.audio.input.transcription.")
        if LOGPROBS in self.include:
            chosen["word_timestamps"] = True
        chosen |= self.own
        if "known_speakers" in chosen:
            chosen.setdefault("speakers", "auto")
        if said.get("keywords"):
            chosen.setdefault("names", ", ".join(map(phrase, said["keywords"])))
        try:
            return with_openais(chosen, languages, said.get("prompt", ""), live=True)[0]
        except OptionError as error:
            name = api_error(error).param or ""
            path = f"audio.input.{_FIELDS[name]}" if name in _FIELDS else f"conch.{name}"
            param = f"session.conch.{name}" if name in self.own else f"session.{path}"
            raise invalid(param, str(error)) from None

    def as_session(self) -> dict[str, Any]:
        """Return the effective configuration in the fields of the GA API."""
        audio_format: dict[str, Any] = {"type": self.format.type}
        if self.format.type == "audio/pcm":
            audio_format["rate"] = self.format.rate
        return {"audio": {"input": {"format": audio_format, **self._rest()}}, **self._own()}

    def as_beta_session(self) -> dict[str, Any]:
        """Return the effective configuration in the fields of the beta."""
        names = {path: name for name, path in _BETA_FORMATS.items()}
        rest = {_BETA_NAMES[name]: value for name, value in self._rest().items()}
        return {"input_audio_format": names[self.format.type], **rest, **self._own()}

    def _rest(self) -> dict[str, Any]:
        model = self.transcription.get("model") or DEFAULT_MODEL
        # Voices are large, and the client has them.
        said = {name: value for name, value in self.transcription.items() if name != NAMES[1]}
        return {
            "noise_reduction": self.noise_reduction,
            "transcription": {**said, "model": model},
            "turn_detection": self._turns,
        }

    def _own(self) -> dict[str, Any]:
        return {"include": list(self.include), "conch": without_voices(self.own)}

    @property
    def _turns(self) -> dict[str, Any] | None:
        """Turn detection with all defaults; None for none."""
        sent = self.turn_detection
        if sent is None:
            return None
        if sent["type"] == "semantic_vad":
            return {"eagerness": "auto", **sent}
        delay = DELAYS[self.transcription.get("delay", "medium")]
        defaults = {"threshold": 0.5, "prefix_padding_ms": 300}
        return {**defaults, "silence_duration_ms": delay.silence_ms, **sent}


def _read_format(before: AudioFormat, path: str, value: Any) -> AudioFormat:
    if isinstance(value, str):  # beta
        return _FORMATS[_BETA_FORMATS[_choice(path, value, tuple(_BETA_FORMATS))]]
    _object(path, value)
    format_type = _choice(f"{path}.type", value.get("type", before.type), tuple(_FORMATS))
    rate = value.get("rate")
    if format_type != "audio/pcm" and rate not in (None, TELEPHONE_RATE):
        raise wrong(f"{path}.rate", f"{TELEPHONE_RATE} with {format_type}", rate)
    if format_type != "audio/pcm" or rate is None:
        return before if format_type == before.type else _FORMATS[format_type]
    return AudioFormat(format_type, _whole(f"{path}.rate", rate, *PCM_RATES))


def _turn_options(turns: Mapping[str, Any]) -> dict[str, OptionValue]:
    if turns["type"] == "semantic_vad":
        eagerness = turns["eagerness"]
        return {
            "endpoint_silence_ms": EAGERNESS_MS[eagerness],
            "semantic_endpointing": eagerness != "low",
        }
    return {
        "vad_threshold": min(max(turns["threshold"], 0.01), 0.99),
        "vad_pad_ms": turns["prefix_padding_ms"],
        "endpoint_silence_ms": turns["silence_duration_ms"],
    }


_Checks: TypeAlias = Mapping[str, Callable[[str, Any], Any]]
"""Functions by field that return its value, or raise an error that names its path."""


def _merged(before: Mapping[str, Any], path: str, value: Any, checks: _Checks) -> dict[str, Any]:
    """Return fields with those of an update; null removes one, and unknown ones are left out."""
    _object(path, value)
    changed = dict(before)
    for name in checks.keys() & value.keys():
        changed.pop(name, None)
        if value[name] is not None:
            changed[name] = checks[name](f"{path}.{name}", value[name])
    return changed


def _object(path: str, value: Any) -> Mapping[str, Any]:
    """Return an object, an empty one for null."""
    if value is not None and not isinstance(value, dict):
        raise wrong(path, "an object", value)
    return value or {}


def _text(path: str, value: Any) -> str:
    if not isinstance(value, str):
        raise wrong(path, "a text", value)
    return value


def _texts(path: str, value: Any) -> list[str]:
    if not isinstance(value, list):
        raise wrong(path, "a list of texts", value)
    return [_text(f"{path}[{number}]", item) for number, item in enumerate(value)]


def _choice(path: str, value: Any, choices: Sequence[str]) -> Any:
    if value not in choices:
        raise wrong(path, " or ".join(choices), value)
    return value


def _threshold(path: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise wrong(path, "a number from 0 to 1", value)
    return float(value)


def _whole(path: str, value: Any, low: int, high: int) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or value != value // 1 or not low <= value <= high:
        raise wrong(path, f"an integer from {low} to {high}", value)
    return int(value)


_TRANSCRIPTION: _Checks = {
    "model": _text,
    "language": _text,
    "languages": _texts,
    "prompt": _text,
    "keywords": _texts,
    **dict.fromkeys(NAMES, _texts),
    "delay": partial(_choice, choices=tuple(DELAYS)),
}
_TURN_DETECTION: Mapping[str, _Checks] = {
    "server_vad": {
        "threshold": _threshold,
        "prefix_padding_ms": partial(_whole, low=0, high=2_000),
        "silence_duration_ms": partial(_whole, low=100, high=10_000),
    },
    "semantic_vad": {"eagerness": partial(_choice, choices=tuple(EAGERNESS_MS))},
}
_NOISE_REDUCTION: _Checks = {"type": partial(_choice, choices=("near_field", "far_field"))}
