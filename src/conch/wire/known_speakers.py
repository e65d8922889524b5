"""The option `known_speakers`: names, and how their voices sound; a JSON list of objects."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.wire.base64_text import bytes_of
from conch.wire.errors import OptionError
from conch.wire.limits import clipped

MAX_KNOWN = 64
MAX_NAME = 60
"""Characters of a name."""
LEAST_S = 1.2
"""Seconds of speech that a voice is known by at least."""
OTHER_S = 1.5
"""Seconds of a second voice from which on audio has two."""
VOICE_MODEL = "campplus-zh-en-192"
"""Model of stored voices; embeddings of another model cannot be compared."""
_KEYS = ("name", "embedding", "audio", "model")


@dataclass(frozen=True, slots=True, eq=False)
class KnownSpeaker:
    """A name, with an embedding or an audio file of the voice."""

    name: str
    embedding: NDArray[np.float32] | None = None
    """Unit vector `[size]`."""
    audio: bytes = b""


class KnownSpeakers(str):
    """The option's text that was read: to read it again costs nothing."""

    def __new__(cls, text: str) -> "KnownSpeakers":
        """Raise an `OptionError` as `known_speakers_of`."""
        option = super().__new__(cls, text)
        option.speakers = known_speakers_of(text)
        return option

    speakers: tuple[KnownSpeaker, ...]


def known_speakers_of(text: str) -> tuple[KnownSpeaker, ...]:
    """Return the speakers in the option's text; raise an OptionError that names a wrong entry."""
    if isinstance(text, KnownSpeakers):
        return text.speakers
    if not text.strip():
        return ()
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"option 'known_speakers' takes a JSON list: {error!s:.80}") from None
    if not isinstance(entries, list) or len(entries) > MAX_KNOWN:
        sent = len(entries) if isinstance(entries, list) else text
        raise OptionError.of("known_speakers", f"a JSON list of at most {MAX_KNOWN}", sent)
    speakers = tuple(_speaker(number, entry) for number, entry in enumerate(entries, 1))
    numbers: dict[str, int] = {}
    for number, item in enumerate(speakers, 1):
        if (first := numbers.setdefault(item.name, number)) != number:
            raise wrong_entry(number, item.name, f"entry {first} has this name too")
    return speakers


def option_of(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the option's text for entries; embeddings may be arrays, and audios bytes."""
    return json.dumps([{key: _text(value) for key, value in item.items()} for item in entries])


def without_voices(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options that may be kept: with the names of known speakers, without their voices."""
    known = known_speakers_of(options.get("known_speakers", ""))
    names = {"known_speakers": ",".join(item.name for item in known)} if known else {}
    return {**options, **names}


def embedding_text(embedding: NDArray[np.float32]) -> str:
    """Return an embedding in base64, as float32 in the order of x86 processors."""
    return base64.b64encode(np.asarray(embedding, "<f4").tobytes()).decode()


def embedding_of(sent: Any) -> NDArray[np.float32]:
    """Return an embedding, of unit length `[size]`, of base64 or a list of numbers.

    Raise a ValueError if it is neither, or a number is not finite, or all are 0.
    """
    if isinstance(sent, str):
        data = bytes_of(sent)
        if len(data) % 4:
            raise ValueError(f"an embedding is base64 of float32; sent: {len(data)} bytes")
        vector = np.frombuffer(data, "<f4").astype(np.float64)
    elif isinstance(sent, list) and all(type(item) in (int, float) for item in sent):
        vector = np.array(sent, np.float64)
    else:
        raise ValueError("an embedding is base64 of float32, or a list of numbers")
    if not np.isfinite(vector).all() or not vector.any():
        raise ValueError("the numbers of an embedding are finite, and not all are 0")
    vector /= np.abs(vector).max()
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def wrong_entry(number: int, name: str, why: str) -> OptionError:
    """Return the error of an entry, by its number from 1."""
    return OptionError(f"option 'known_speakers', entry {number} ({clipped(name)!r}): {why}")


def check_name(name: Any) -> str:
    """Return what is wrong with the name of a speaker; empty if nothing is."""
    if isinstance(name, str) and name.isprintable() and 0 < len(name.strip()) == len(name):
        return "" if len(name) <= MAX_NAME else f"a name takes at most {MAX_NAME} characters"
    return "a name is a text of printable characters, without spaces around it"


def _speaker(number: int, entry: Any) -> KnownSpeaker:
    if not isinstance(entry, dict):
        raise wrong_entry(number, "", "it is no object with name and embedding or audio")
    name = entry.get("name", "")
    shown = name if isinstance(name, str) else repr(name)
    if problem := check_name(name):
        raise wrong_entry(number, shown, problem)
    if unknown := [key for key in entry if key not in _KEYS]:
        raise wrong_entry(number, name, f"unknown key {clipped(unknown[0])!r}")
    if ("embedding" in entry) == ("audio" in entry):
        raise wrong_entry(number, name, "it takes one of embedding and audio")
    if entry.get("model", VOICE_MODEL) != VOICE_MODEL:
        problem = f"its embedding is of model {entry['model']!r:.80}; this server has {VOICE_MODEL}"
        raise wrong_entry(number, name, f"{problem}: enrol it again")
    try:
        if "audio" in entry:
            if not (audio := bytes_of(entry["audio"])):
                raise ValueError("it has 0 bytes")
            return KnownSpeaker(name, audio=audio)
        return KnownSpeaker(name, embedding_of(entry["embedding"]))
    except (ValueError, TypeError, OverflowError) as error:
        raise wrong_entry(number, name, str(error)) from None


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return embedding_text(value) if isinstance(value, np.ndarray) else value
