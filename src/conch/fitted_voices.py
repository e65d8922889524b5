"""The voices that are fitted to recordings: a file each, which nobody else can read.

A file holds the voice. While a voice is being fitted it holds a voice print too, and where the work
stands, so that it goes on after a restart. It never holds audio.
"""

import json
import os
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Literal

import msgspec

from conch.families import VOICES, likening
from conch.families.family import AddedVoice, Synthesizer, models_home
from conch.whole import flocked, write_private

VARIABLE = "CONCH_VOICES_FROM_RECORDINGS"
"""Environment variable of `tritonserver`: whether it takes recordings to imitate a voice, and
speaks with fitted voices."""
CONSENT_VARIABLE = "CONCH_VOICE_CONSENT"
"""Environment variable of `tritonserver`: the sentence that a person must speak; empty for none."""
NAME = re.compile(r"\w(?:[\w .'-]{0,58}[\w.])?")
"""Names of fitted voices."""
TAKES_NAME = "takes 1 to 60 letters, digits, spaces and any of . ' - _"
LEAST_MINUTES, MOST_MINUTES, MINUTES = 1, 120, 10
"""Limits of the minutes to fit a voice, and the default."""
STOP = ".stop"
"""Suffix of the file by which a server that shares the folder ends the work on a voice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedVoice:
    """A voice, as clients see it."""

    name: str
    status: Literal["queued", "fitting", "ready", "failed"] = "queued"
    created_at: int = field(default_factory=lambda: int(time.time()))
    """Unix time."""
    mix: str = ""
    """The nearest mix of voices, where fitting began: a value of the option `voice`."""
    similarity: float | None = None
    """Cosine between the embeddings of the voice and of the recordings that were held back."""
    start_similarity: float | None = None
    """`similarity` of the mix."""
    wer: float | None = None
    """Word error rate in percent of what the voice says; None without a recogniser."""
    steps: int = 0
    seconds: float = 0.0
    """Seconds of work so far, without those in which other processes had the cores."""
    seconds_left: float = 0.0
    """Most seconds of work to come."""
    curve: tuple[tuple[int, float], ...] = ()
    """Similarities by the step."""
    warnings: tuple[str, ...] = ()
    error: str = ""

    @property
    def is_spoken(self) -> bool:
        """Whether texts can be spoken with it, perhaps before it is ready."""
        return bool(self.curve) and self.status != "failed"

    @property
    def is_in_work(self) -> bool:
        return self.status in ("queued", "fitting")

    def as_dict(self) -> dict[str, object]:
        return {"object": "audio.voice", "id": self.name, **asdict(self)}

    def to_json(self) -> str:
        return json.dumps(self.as_dict())

    @classmethod
    def from_json(cls, text: str | bytes) -> "FittedVoice":
        """Read what `to_json` wrote; raise a MsgspecError for something else."""
        return msgspec.json.decode(text, type=cls)


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """State of the work on a voice, from which it continues."""

    target: bytes
    """Embedding of the recordings, float32."""
    held_back: bytes
    """Embedding of the recordings that were held back."""
    deviation: bytes
    most_s: float
    point: bytes
    """Current point of the search, in deviations from the mix."""
    moments: tuple[bytes, bytes]
    """First and second moments of the gradients."""


class StoredVoice(msgspec.Struct, frozen=True, kw_only=True):
    shown: FittedVoice
    id: str = msgspec.field(default_factory=lambda: secrets.token_hex(8))
    """No other voice has it, not even a later one of the same name."""
    pitch: float
    """Factor of the pitch of the mix."""
    start: bytes
    """Timbre of the mix, float32."""
    timbre: bytes
    loudness: float = 0.0
    """Root mean square of what the mix says; 0 before it has spoken."""
    gain: float = 1.0
    """Factor of the samples, by which the voice is no louder than the mix."""
    work: Work | None = None
    """None when the voice is ready: the voice print is gone then."""

    @property
    def path(self) -> Path:
        return file_of(self.shown.name)

    @property
    def is_there(self) -> bool:
        """Whether it was neither removed nor replaced."""
        latest = stored(self.shown.name)
        return latest is not None and latest.id == self.id

    def keep(self) -> None:
        """Write the voice to its file; raise an OSError if it cannot be written."""
        folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        folder().chmod(0o700)
        write_private(self.path, msgspec.json.encode(self))


_READ: dict[Path, tuple[int, StoredVoice]] = {}
"""The latest state of each file, and when it changed."""


def folder() -> Path:
    """Return the folder of the voices, `$XDG_DATA_HOME/conch/voices`; it need not exist yet."""
    return models_home().parent / "voices"


def lock() -> IO[bytes]:
    """Lock the folder for the one server that fits its voices.

    Raise a BlockingIOError if another has it.
    """
    folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    return flocked(folder() / ".lock")


def file_of(name: str) -> Path:
    """Return the file of a voice, which need not exist."""
    return folder() / f"{name}.json"


def stored(name: str) -> StoredVoice | None:
    """Return a voice; None if there is none, or its file cannot be read."""
    path = file_of(name)
    try:
        changed = path.stat().st_mtime_ns
        if path not in _READ or _READ[path][0] != changed:
            _READ[path] = changed, msgspec.json.decode(path.read_bytes(), type=StoredVoice)
        return _READ[path][1]
    except (OSError, msgspec.DecodeError):
        _READ.pop(path, None)
        return None


def all_stored() -> list[StoredVoice]:
    """Return the voices, the oldest first."""
    found = (stored(path.stem) for path in folder().glob("*.json"))
    return sorted(filter(None, found), key=lambda item: (item.shown.created_at, item.shown.name))


def remove(name: str) -> bool:
    """Delete a voice, also one in work; return whether there was one."""
    path = file_of(name)
    was_there = path.exists()
    path.unlink(missing_ok=True)
    _READ.pop(path, None)
    path.with_suffix(STOP).unlink(missing_ok=True)
    return was_there


def own_voices(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the voices of a server that are in no declaration, as `add_voices` takes them.

    A server that takes no recordings speaks with no fitted voices.
    """
    added = (environment[VOICES],) if VOICES in environment else ()
    if VARIABLE not in environment:
        return added
    spoken = [_added(item.shown, likening()) for item in all_stored() if item.shown.is_spoken]
    return (*added, json.dumps([asdict(voice) for voice in spoken])) if spoken else added


def _added(voice: FittedVoice, speaker: Synthesizer) -> AddedVoice:
    languages = (item.language for item in speaker.voices if voice.mix.startswith(item.name))
    return AddedVoice(
        synthesizer=speaker.name,
        name=voice.name,
        language=next(languages, "en"),
        description="fitted to recordings",
        has_speakers=False,
        sample_rate=speaker.sample_rate,
        frame_samples=speaker.frame_samples,
        context=speaker.frames_before,
        is_fitted=True,
    )
