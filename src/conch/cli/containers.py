"""Decode audio files in pieces.

libsndfile reads files. PyAV, if it is installed, reads the containers that libsndfile does not know
(m4a, webm).
"""

from collections.abc import Iterator
from typing import BinaryIO

import soundfile

from conch.audio.pieces import DecodedAudio, Samples, decoded_by_pyav, is_pyav_there
from conch.audio.sniffing import NUM_FIRST_BYTES, container_of
from conch.wire.errors import AudioError

BLOCK_S = 10
"""Seconds that libsndfile decodes at a time: each read loses some milliseconds of an mp3."""

_PYAV_KINDS = ("mp3", "mov", "matroska", "aac", "avi")
"""Containers left to PyAV: libsndfile knows only mp3 of these, and complains on stderr."""


def decoded_file(file: BinaryIO, name: str) -> DecodedAudio:
    """Return the audio of a seekable file.

    Args:
        file: closed when the audio has been read.

    Raises:
        AudioError: it is not audio, or its decoder is not installed.
    """
    try:
        return _decoded_file(file, name)
    except BaseException:
        file.close()
        raise


def _decoded_file(file: BinaryIO, name: str) -> DecodedAudio:
    if not file.seekable():
        raise AudioError(f"{name} is a pipe: conch stream - reads one from stdin")
    first = file.read(NUM_FIRST_BYTES)
    file.seek(0)
    try:
        container = container_of(first)
    except AudioError as error:
        raise AudioError(f"{name} is {error}") from None
    if container in _PYAV_KINDS and is_pyav_there():
        return decoded_by_pyav(file, None, name)
    try:
        sound = soundfile.SoundFile(file)
    except soundfile.LibsndfileError as error:
        if not is_pyav_there():
            reason = f"{error.error_string} PyAV reads more kinds: pip install av"
            raise AudioError(f"{name} cannot be read: {reason}") from None
        file.seek(0)
        return decoded_by_pyav(file, None, name)
    return DecodedAudio(int(sound.samplerate), _pieces(file, sound, name))


def _pieces(file: BinaryIO, sound: soundfile.SoundFile, name: str) -> Iterator[Samples]:
    with file, sound:
        try:
            while len(
                samples := sound.read(BLOCK_S * sound.samplerate, dtype="float32", always_2d=True)
            ):
                yield samples.mean(axis=1)
        except soundfile.LibsndfileError as error:
            raise AudioError(f"{name} is damaged: {error.error_string}") from None
