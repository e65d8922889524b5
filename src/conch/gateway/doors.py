"""The doors of a gateway: the addresses that take something of a client.

A new one is a module or a folder, and its declaration here. Modules are named, not imported: the
protocols of other ports are loaded when their port is opened.
"""

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Literal

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Door:
    """One address, what it takes, and how much."""

    name: str
    transport: Literal["http", "websocket", "grpc", "tcp"]
    """gRPC and TCP have ports of their own: PORTS."""
    address: str
    """Path, full name of a method of gRPC, or name of the work in logs and metrics."""
    takes: Literal[
        "file", "live audio", "text", "live text", "transcript", "settings", "recordings"
    ]
    """Live content comes while the client speaks or writes, for `max_session_s` at most."""
    answered_by: str
    """The handler, as `module:name` in this package."""
    max_message_bytes: int = 0
    """Largest body, frame or event; 0 for the setting `max_body_mb`."""
    refused_by: str = "errors:openais_body"
    """Function that makes the body of an HTTP answer from an error, as `module:name`."""

    @property
    def method(self) -> str:
        return "GET" if self.transport == "websocket" else "POST"

    @property
    def answer(self) -> Any:
        return resolve_name(f"{__package__}.{self.answered_by}")

    @property
    def refusal(self) -> Any:
        return resolve_name(f"{__package__}.{self.refused_by}")


@dataclass(frozen=True, slots=True)
class Port:
    """A further port, for another protocol than HTTP."""

    name: str
    """Name of the protocol; in lower case it is the setting with the address."""
    transport: Literal["grpc", "tcp"]
    opened_by: str
    """The context manager that serves it and yields its number, as `module:name` here."""

    @property
    def opener(self) -> Any:
        return resolve_name(f"{__package__}.{self.opened_by}")


PORTS = (
    Port("wyoming", "tcp", "wyoming.connection:listening"),
    Port("Riva", "grpc", "riva.server:listening"),
)

_AUDIO, _REALTIME = "/v1/audio", "/v1/realtime"
_ASR, _TTS = "/nvidia.riva.asr.RivaSpeechRecognition", "/nvidia.riva.tts.RivaSpeechSynthesis"
TRANSCRIPTIONS = Door(
    "transcriptions", "http", f"{_AUDIO}/transcriptions", "file", "transcriptions:transcribe"
)
TRANSLATIONS = Door(
    "translations", "http", f"{_AUDIO}/translations", "file", "transcriptions:translate"
)
DIARIZATION = Door("diarization", "http", f"{_AUDIO}/diarization", "file", "transcriptions:diarize")
SPEECH = Door("speech", "http", f"{_AUDIO}/speech", "text", "speech:speak", MIB)
VOICES = Door("voices", "http", f"{_AUDIO}/voices", "recordings", "voices:fit_voice")
FORMAT = Door("format", "http", "/v1/format", "transcript", "format:write", 12 * MIB)
CLIENT_SECRETS = Door(
    *("secrets", "http", f"{_REALTIME}/client_secrets", "settings"),
    *("realtime.secrets:make_client_secret", MIB >> 7),
)
SESSIONS = Door(
    *("sessions", "http", f"{_REALTIME}/transcription_sessions", "settings"),
    *("realtime.secrets:make_transcription_session", MIB >> 7),
)
REALTIME = Door(
    "realtime", "websocket", _REALTIME, "live audio", "realtime.session:realtime", 21 * MIB
)
_DEEPGRAMS: Any = {"refused_by": "errors:deepgrams_body"}
DEEPGRAM_FILE = Door(
    *("deepgram-file", "http", "/v1/listen", "file", "deepgram.listen:transcribe"), **_DEEPGRAMS
)
DEEPGRAM_LISTEN = Door(
    *("deepgram-listen", "websocket", "/v1/listen", "live audio", "deepgram.listen:listen"),
    4 * MIB,
    **_DEEPGRAMS,
)
DEEPGRAM_TURNS = Door(
    *("deepgram-turns", "websocket", "/v2/listen", "live audio", "deepgram.turns:listen"),
    4 * MIB,
    **_DEEPGRAMS,
)
DEEPGRAM_SPEECH = Door(
    *("deepgram-speech", "http", "/v1/speak", "text", "deepgram.speak:speak"), MIB, **_DEEPGRAMS
)
DEEPGRAM_SPEAK = Door(
    *("deepgram-speak", "websocket", "/v1/speak", "live text", "deepgram.speak:speak_live"),
    MIB,
    **_DEEPGRAMS,
)
LISTEN = Door("listen", "websocket", "/v1/conch/listen", "live audio", "listen:listen", 4 * MIB)
SPEAK = Door("speak", "websocket", "/v1/conch/speak", "live text", "speak:speak", MIB)
RIVA_FILE = Door("riva-file", "grpc", f"{_ASR}/Recognize", "file", "riva.recognition:recognize")
RIVA_STREAM = Door(
    "riva-stream", "grpc", f"{_ASR}/StreamingRecognize", "live audio", "riva.recognition:stream"
)
RIVA_SPEECH = Door("riva-speech", "grpc", f"{_TTS}/Synthesize", "text", "riva.synthesis:synthesize")
RIVA_SPEAK = Door(
    "riva-speak",
    "grpc",
    f"{_TTS}/SynthesizeOnline",
    "live text",
    "riva.synthesis:synthesize_online",
)
_WYOMING = "wyoming.connection:WyomingConnection"
WYOMING_LISTEN = Door(
    "wyoming-listen", "tcp", "wyoming transcribe", "live audio", _WYOMING, 4 * MIB
)
WYOMING_SPEAK = Door("wyoming-speak", "tcp", "wyoming synthesize", "live text", _WYOMING, 4 * MIB)

DOORS = (
    *(TRANSCRIPTIONS, TRANSLATIONS, DIARIZATION, SPEECH, VOICES, FORMAT, CLIENT_SECRETS, SESSIONS),
    *(REALTIME, LISTEN, SPEAK, RIVA_FILE),
    *(DEEPGRAM_FILE, DEEPGRAM_LISTEN, DEEPGRAM_TURNS, DEEPGRAM_SPEECH, DEEPGRAM_SPEAK),
    *(RIVA_STREAM, RIVA_SPEECH, RIVA_SPEAK, WYOMING_LISTEN, WYOMING_SPEAK),
)
