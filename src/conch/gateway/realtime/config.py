"""The configuration of a realtime session: OpenAI's fields, and Conch's options made of them.

The fields are those of the GA API and of its beta, which named them otherwise. An update changes
what it names and leaves the rest.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from conch.client import OptionValue
from conch.families.whisper.declaration import MAX_PROMPT
from conch.gateway.errors import ApiError, api_error
from conch.gateway.models import DEFAULT_MODEL, options_of
from conch.wire.errors import OptionError
from conch.wire.languages import code_of, codes_of
from conch.wire.options import RecognitionOptions

LOGPROBS = "item.input_audio_transcription.logprobs"
"""What `include` calls the log probabilities of the words."""
PARTIALS = "conch.partial"
"""What `include` calls Conch's events with the words that may still change."""
PCM_RATES = (8_000, 48_000)
"""Lowest and highest sample rate of 16-bit samples."""
TELEPHONE_RATE = 8_000
"""Sample rate of G.711."""


class Delay(NamedTuple):
    """What OpenAI's `delay` stands for here."""

    rolling_pass_ms: int
    """Audio between two passes over what is being spoken: a later pass makes surer words firm."""
    silence_ms: int
    """Silence that ends a turn, unless the turn detection says it."""


DELAYS: Mapping[str, Delay] = MappingProxyType(
    {
        "minimal": Delay(640, 300),
        "low": Delay(960, 400),
        "medium": Delay(1280, 500),
        "high": Delay(2560, 800),
        "xhigh": Delay(5120, 1200),
    }
)
EAGERNESS_MS: Mapping[str, int] = MappingProxyType(
    {"low": 2000, "medium": 1000, "auto": 1000, "high": 500}
)
"""Silence that ends a turn by `eagerness` of `semantic_vad`: nothing here reads the meaning."""

_THRESHOLDS = (0.01, 0.99)
_BETA_FORMATS: Mapping[str, str] = MappingProxyType(
    {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
)
_BETA_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "format": "input_audio_format",
        "noise_reduction": "input_audio_noise_reduction",
        "transcription": "input_audio_transcription",
        "turn_detection": "turn_detection",
    }
)
_DEFAULT_TURN_DETECTION: Mapping[str, Any] = MappingProxyType({"type": "server_vad"})
_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "decoder": "transcription.model",
        "language": "transcription.language",
        "languages": "transcription.languages",
        "prompt": "transcription.prompt",
        "hotwords": "transcription.keywords",
        "rolling_pass_ms": "transcription.delay",
        "vad_threshold": "turn_detection.threshold",
        "vad_pad_ms": "turn_detection.prefix_padding_ms",
        "endpoint_silence_ms": "turn_detection.silence_duration_ms",
    }
)
"""Field of OpenAI's API that sets an option, below `session.audio.input`."""


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """How the samples of a session are sent."""

    type: str = "audio/pcm"
    """16-bit little-endian samples, or G.711 mu-law or A-law."""
    rate: int = 24_000
    """Samples a second."""

    @property
    def sample_bytes(self) -> int:
        """Return the bytes of a sample."""
        return 2 if self.type == "audio/pcm" else 1


_FORMATS: Mapping[str, AudioFormat] = MappingProxyType(
    {
        "audio/pcm": AudioFormat(),
        "audio/pcmu": AudioFormat("audio/pcmu", TELEPHONE_RATE),
        "audio/pcma": AudioFormat("audio/pcma", TELEPHONE_RATE),
    }
)


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """The configuration of a session; frozen: an update gives a new one."""

    format: AudioFormat = field(default_factory=AudioFormat)
    noise_reduction: Mapping[str, Any] | None = None
    """As sent. Conch's models are trained with noise: nothing is done."""
    transcription: Mapping[str, Any] = field(default_factory=dict)
    """What was sent of model, language, languages, prompt, keywords and delay."""
    turn_detection: Mapping[str, Any] | None = field(
        default_factory=lambda: _DEFAULT_TURN_DETECTION
    )
    """What was sent; None if the client commits its turns."""
    include: tuple[str, ...] = ()
    own: Mapping[str, OptionValue] = field(default_factory=dict)
    """Options of Conch under `session.conch`. They go before those that OpenAI's fields set."""

    @property
    def is_manual(self) -> bool:
        """Whether the client commits its turns."""
        return self.turn_detection is None

    def updated(self, session: Any, aliases: Mapping[str, str]) -> "SessionConfig":
        """Return the configuration after an update.

        Args:
            session: The field `session` of the update, of the GA API or of its beta.
            aliases: Further names of models, by alias.

        Raises:
            ApiError: a field is wrong; `param` names it.
        """
        _check_object(session, "session")
        if (kind := session.get("type", "transcription")) != "transcription":
            raise _wrong("session.type", "transcription: there are no other sessions here", kind)
        config = self
        for name, path, value in _inputs_in(session):
            config = replace(config, **{name: _READERS[name](config, path, value)})
        if "include" in session:
            config = replace(config, include=_include(session["include"]))
        if "conch" in session:
            config = replace(config, own=config._with_own(session["conch"]))
        config.options(aliases)
        return config

    def options(self, aliases: Mapping[str, str]) -> dict[str, OptionValue]:
        """Return the options of the session's live streams.

        Args:
            aliases: Further names of models, by alias.

        Raises:
            ApiError: there is no such model, or two options contradict each other.
        """
        said = self.transcription
        try:
            chosen = dict(options_of(said.get("model") or "", aliases))
        except ApiError as error:
            param = "session.audio.input.transcription.model"
            raise ApiError(error.status, str(error), param=param, code=error.code) from None
        if (language := self._language) != "auto":
            chosen["language"] = language
        if "delay" in said:
            chosen["rolling_pass_ms"] = DELAYS[said["delay"]].rolling_pass_ms
        if (turns := self._turns) is not None:
            chosen |= _turn_options(turns)
        if LOGPROBS in self.include:
            chosen["word_timestamps"] = True
        chosen |= self.own
        parsed = self._parsed(chosen)
        is_auto = chosen.get("language", "auto") == "auto"
        if is_auto and len(self._languages) > 1 and parsed.takes("languages"):
            chosen.setdefault("languages", ",".join(self._languages))
        if said.get("prompt") and parsed.reads_prompt:
            # As of Whisper: the end of a prompt is nearest to the audio.
            chosen.setdefault("prompt", said["prompt"][-MAX_PROMPT:])
        if said.get("keywords"):
            chosen.setdefault("hotwords", ", ".join(map(_phrase, said["keywords"])))
        self._parsed(chosen)
        return chosen

    def as_session(self) -> dict[str, Any]:
        """Return the effective configuration in the fields of the GA API."""
        audio_format: dict[str, Any] = {"type": self.format.type}
        if self.format.type == "audio/pcm":
            audio_format["rate"] = self.format.rate
        return {
            "audio": {"input": {"format": audio_format, **self._rest()}},
            "include": list(self.include),
            "conch": dict(self.own),
        }

    def as_beta_session(self) -> dict[str, Any]:
        """Return the effective configuration in the fields of the beta."""
        names = {path: name for name, path in _BETA_FORMATS.items()}
        rest = {_BETA_NAMES[name]: value for name, value in self._rest().items()}
        return {
            "input_audio_format": names[self.format.type],
            **rest,
            "include": list(self.include),
            "conch": dict(self.own),
        }

    def _rest(self) -> dict[str, Any]:
        transcription = {**self.transcription}
        transcription["model"] = transcription.get("model") or DEFAULT_MODEL
        return {
            "noise_reduction": self.noise_reduction and dict(self.noise_reduction),
            "transcription": transcription,
            "turn_detection": self._turns,
        }

    @property
    def _language(self) -> str:
        only = self._languages[0] if len(self._languages) == 1 else ""
        return code_of(self.transcription.get("language") or only)

    @property
    def _languages(self) -> Sequence[str]:
        return codes_of(",".join(self.transcription.get("languages") or []))

    @property
    def _turns(self) -> dict[str, Any] | None:
        """Turn detection with the defaults of what was not sent; None for none."""
        sent = self.turn_detection
        if sent is None:
            return None
        if sent["type"] == "semantic_vad":
            return {"eagerness": "auto", **sent}
        delay = DELAYS[self.transcription.get("delay", "medium")]
        defaults = {
            "threshold": 0.5,
            "prefix_padding_ms": 300,
            "silence_duration_ms": delay.silence_ms,
        }
        return {**defaults, **sent}

    def _parsed(self, options: Mapping[str, OptionValue]) -> RecognitionOptions:
        try:
            return RecognitionOptions.parse(options, live=True)
        except OptionError as error:
            found = api_error(error)
            name = found.param or ""
            path = f"audio.input.{_FIELDS[name]}" if name in _FIELDS else f"conch.{name}"
            param = f"session.conch.{name}" if name in self.own else f"session.{path}"
            raise ApiError(400, str(error), param=param, code="invalid_value") from None

    def _with_own(self, value: Any) -> Mapping[str, OptionValue]:
        if value is None:
            return {}
        _check_object(value, "session.conch")
        changed = {**self.own, **value}
        return {name: sent for name, sent in changed.items() if sent is not None}


def _inputs_in(session: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """Return name, path and value of each part about the audio, of either API."""
    audio = session.get("audio")
    if audio is None:
        audio = {}
    _check_object(audio, "session.audio")
    inputs = audio.get("input")
    if inputs is None:
        inputs = {}
    _check_object(inputs, "session.audio.input")
    found = []
    for name, beta_name in _BETA_NAMES.items():
        if beta_name in session:
            found.append((name, f"session.{beta_name}", session[beta_name]))
        if name in inputs:
            found.append((name, f"session.audio.input.{name}", inputs[name]))
    return found


def _read_format(config: SessionConfig, path: str, value: Any) -> AudioFormat:
    if value is None:
        return AudioFormat()
    if isinstance(value, str):  # beta
        kind = _BETA_FORMATS[_choice(path, value, tuple(_BETA_FORMATS))]
        return _FORMATS[kind]
    _check_object(value, path)
    before = config.format
    kind = _choice(f"{path}.type", value.get("type", before.type), tuple(_FORMATS))
    rate = value.get("rate")
    if kind != "audio/pcm" and rate not in (None, TELEPHONE_RATE):
        raise _wrong(f"{path}.rate", f"{TELEPHONE_RATE} with {kind}", rate)
    if kind != "audio/pcm" or rate is None:
        return before if kind == before.type else _FORMATS[kind]
    return AudioFormat(kind, _whole(f"{path}.rate", rate, *PCM_RATES))


def _read_noise_reduction(config: SessionConfig, path: str, value: Any) -> Mapping[str, Any] | None:
    if value is None:
        return None
    return _merged(config.noise_reduction or {}, path, value, _NOISE_REDUCTION)


def _read_transcription(config: SessionConfig, path: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    return _merged(config.transcription, path, value, _TRANSCRIPTION)


def _read_turn_detection(config: SessionConfig, path: str, value: Any) -> Mapping[str, Any] | None:
    if value is None:
        return None
    _check_object(value, path)
    before = config.turn_detection or _DEFAULT_TURN_DETECTION
    kinds = ("server_vad", "semantic_vad")
    kind = _choice(f"{path}.type", value.get("type", before["type"]), kinds)
    checks = _SERVER_VAD if kind == "server_vad" else _SEMANTIC_VAD
    return _merged(before if kind == before["type"] else {"type": kind}, path, value, checks)


_Checks: TypeAlias = Mapping[str, Callable[[str, Any], Any]]
"""By field, what returns its value or raises an error that names its path."""


def _merged(before: Mapping[str, Any], path: str, value: Any, checks: _Checks) -> dict[str, Any]:
    """Return fields with those of an update; null takes one away, unknown ones are left out."""
    _check_object(value, path)
    changed = dict(before)
    for name in checks.keys() & value.keys():
        changed.pop(name, None)
        if value[name] is not None:
            changed[name] = checks[name](f"{path}.{name}", value[name])
    return changed


def _turn_options(turns: Mapping[str, Any]) -> dict[str, OptionValue]:
    if turns["type"] == "semantic_vad":
        return {"endpoint_silence_ms": EAGERNESS_MS[turns["eagerness"]]}
    low, high = _THRESHOLDS
    return {
        "vad_threshold": min(max(turns["threshold"], low), high),
        "vad_pad_ms": turns["prefix_padding_ms"],
        "endpoint_silence_ms": turns["silence_duration_ms"],
    }


def _include(value: Any) -> tuple[str, ...]:
    """Return the known ones of what a client wants included."""
    if value is None:
        return ()
    sent = _texts("session.include", value)
    return tuple(name for name in (LOGPROBS, PARTIALS) if name in sent)


def _phrase(keyword: str) -> str:
    """Return a keyword without the signs that separate hotwords and their weights."""
    return " ".join(keyword.replace(",", " ").replace(":", " ").split())


def _check_object(value: Any, path: str) -> None:
    if not isinstance(value, Mapping):
        raise _wrong(path, "an object", value)


def _text(path: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(path, "a text", value)
    return value


def _texts(path: str, value: Any) -> list[str]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise _wrong(path, "a list of texts", value)
    return [_text(f"{path}[{number}]", item) for number, item in enumerate(value)]


def _choice(path: str, value: Any, choices: Sequence[str]) -> Any:
    if value not in choices:
        raise _wrong(path, " or ".join(choices), value)
    return value


def _threshold(path: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise _wrong(path, "a number from 0 to 1", value)
    return float(value)


def _whole(path: str, value: Any, low: int, high: int) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or value != value // 1 or not low <= value <= high:
        raise _wrong(path, f"an integer from {low} to {high}", value)
    return int(value)


def _wrong(path: str, wanted: str, sent: Any) -> ApiError:
    message = f"{path} takes {wanted}; sent: {sent!r:.80}"
    return ApiError(400, message, param=path, code="invalid_value")


_TRANSCRIPTION: _Checks = MappingProxyType(
    {
        "model": _text,
        "language": _text,
        "languages": _texts,
        "prompt": _text,
        "keywords": _texts,
        "delay": partial(_choice, choices=tuple(DELAYS)),
    }
)
_SERVER_VAD: _Checks = MappingProxyType(
    {
        "threshold": _threshold,
        "prefix_padding_ms": partial(_whole, low=0, high=2_000),
        "silence_duration_ms": partial(_whole, low=100, high=10_000),
    }
)
_SEMANTIC_VAD: _Checks = MappingProxyType(
    {"eagerness": partial(_choice, choices=tuple(EAGERNESS_MS))}
)
_NOISE_REDUCTION: _Checks = MappingProxyType(
    {"type": partial(_choice, choices=("near_field", "far_field"))}
)
_READERS: Mapping[str, Callable[[SessionConfig, str, Any], Any]] = MappingProxyType(
    {
        "format": _read_format,
        "noise_reduction": _read_noise_reduction,
        "transcription": _read_transcription,
        "turn_detection": _read_turn_detection,
    }
)
