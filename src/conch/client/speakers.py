"""The voices that a user has enrolled: a file each, which nobody else can read.

A file that cannot be read or written, or a name that no file can have, is a ConfigError.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from conch.families.family import models_home
from conch.whole import write_private
from conch.wire.errors import ConfigError
from conch.wire.known_speakers import check_name


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrolledVoice:
    name: str
    embedding: str
    """Float32 in base64."""
    model: str
    """Model that made the embedding."""
    seconds: float
    """Seconds of speech that the embedding was made of."""
    added: str
    """The day, as 2026-01-31."""


def speakers_home() -> Path:
    """Return the folder of the voices, `$XDG_DATA_HOME/conch/speakers`; it need not exist yet."""
    return models_home().parent / "speakers"


def enrolled_voices() -> list[EnrolledVoice]:
    """Return all enrolled voices, by name."""
    return [_read(path) for path in sorted(speakers_home().glob("*.json"))]


def known_speakers(names: Iterable[str] = ()) -> list[dict[str, str]]:
    """Return enrolled voices as the option `known_speakers` takes them; without names, all."""
    voices = [_read(voice_file(name)) for name in names] or enrolled_voices()
    return [
        {"name": item.name, "embedding": item.embedding, "model": item.model} for item in voices
    ]


def keep(voice: EnrolledVoice) -> Path:
    """Write a voice to its file, in place of one with its name, and return the file."""
    path = voice_file(voice.name)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        write_private(path, msgspec.json.format(msgspec.json.encode(voice)) + b"\n")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    return path


def voice_file(name: str) -> Path:
    """Return the file of a name, which need not exist."""
    problem = check_name(name)
    if problem or "/" in name or name.startswith("."):
        raise ConfigError(f"{name!r:.80}: {problem or 'a name has no / and begins with no dot'}")
    return speakers_home() / f"{name}.json"


def _read(path: Path) -> EnrolledVoice:
    try:
        return msgspec.json.decode(path.read_bytes(), type=EnrolledVoice)
    except FileNotFoundError:
        known = ", ".join(item.stem for item in sorted(path.parent.glob("*.json"))) or "nobody"
        add = "conch speakers add enrols a voice"
        raise ConfigError(f"{path.stem!r} is not enrolled; enrolled: {known}; {add}") from None
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
