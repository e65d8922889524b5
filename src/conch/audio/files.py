"""Encoded audio files as blocks of samples: by libsndfile where it can, else by FFmpeg."""

import io
import re
from collections.abc import Iterator
from typing import Protocol

import soundfile

from conch.audio.containers import CUT_OFF_S, ContainerFile
from conch.audio.contents import UNKNOWN_LENGTH, breaks_off
from conch.component import Array
from conch.wire.errors import AudioError

XING_WITHIN = 4096
"""Bytes of an MP3's first frame in which its length stands, if it does."""


class AudioFile(Protocol):
    """What decodes a file, whichever library it is by."""

    sample_rate: int
    num_channels: int
    length_s: float | None
    """Seconds by the header, None where it does not tell."""
    warnings: list[str]
    """What is wrong with the file, a sentence each; complete when all blocks are read."""

    def blocks(self, block_frames: int) -> Iterator[Array]:
        """Yield the samples, FP32 [about block_frames, channels]; to be called once.

        Raises:
            AudioError: nothing can be decoded.
        """
        ...


def open_file(data: bytes) -> AudioFile:
    """Open an encoded audio file.

    Raises:
        AudioError: it is none; the message says what was found.
    """
    try:
        file = LibsndfileFile(data)
    except soundfile.LibsndfileError as error:
        opened = ContainerFile(data)
        if "malformed" in error.error_string.lower():
            opened.warnings.append(
                "the file's header is broken: it is read as far as it can be made out"
            )
        return opened
    if file.length_s != 0:
        return file
    try:
        opened = ContainerFile(data)
    except AudioError:
        raise AudioError("AUDIO holds no samples") from None
    opened.warnings.append(
        "the file's header tells no length, as of a recording that was not closed: "
        "it is read to its end"
    )
    return opened


class LibsndfileFile:
    """A file that libsndfile reads; see `AudioFile`."""

    def __init__(self, data: bytes) -> None:
        """Read the header.

        Raises:
            soundfile.LibsndfileError: libsndfile does not read it.
        """
        self._data = data
        self._file = soundfile.SoundFile(io.BytesIO(data))
        self.sample_rate: int = self._file.samplerate
        self.num_channels: int = self._file.channels
        self.warnings: list[str] = []
        # Of an MP3 that does not tell libsndfile guesses the length from the first frames.
        is_told = self._file.format != "MP3" or _tells_length(data)
        self.length_s = self._file.frames / self.sample_rate if is_told else None

    def blocks(self, block_frames: int) -> Iterator[Array]:
        done = 0
        try:
            while len(block := self._file.read(block_frames, dtype="float32", always_2d=True)):
                done += len(block)
                yield block
        except soundfile.LibsndfileError as error:
            yield from self._behind_damage(done, block_frames, error.error_string)
        else:
            self._note_what_is_missing(done / self.sample_rate)

    def _behind_damage(self, done: int, block_frames: int, reason: str) -> Iterator[Array]:
        """Yield what follows the samples that are done: FFmpeg goes on where libsndfile gives up.

        Raises:
            AudioError: neither can decode anything.
        """
        try:
            rest: AudioFile | None = ContainerFile(self._data)
        except AudioError:
            rest = None
        if rest is None or (rest.sample_rate, rest.num_channels) != (
            self.sample_rate,
            self.num_channels,
        ):
            if not done:
                raise AudioError(f"AUDIO is damaged from its beginning on: {reason}")
            self.warnings.append(
                f"the file is damaged after {done / self.sample_rate:.1f} s: "
                "what follows is left out"
            )
            return
        for block in rest.blocks(block_frames):
            new = block[done:]
            done -= len(block) - len(new)
            if len(new):
                yield new
        self.warnings += rest.warnings or ["the file is damaged: parts of it may be missing"]

    def _note_what_is_missing(self, decoded_s: float) -> None:
        told_s = self.length_s
        if told_s is not None and self._file.format != "MP3":
            told_s *= _told_by_there(self._file.extra_info)
        if told_s is not None and decoded_s < told_s - CUT_OFF_S:
            self.warnings.append(
                f"the file is cut off: {decoded_s:.1f} of the {told_s:.1f} s that it tells are "
                "there"
            )
        elif self._file.format == "OGG" and breaks_off(self._data):
            self.warnings.append(f"the file breaks off after {decoded_s:.1f} s: it may be cut off")


def _told_by_there(log: str) -> float:
    """Return how many times as long a file is by its header as by its bytes, from libsndfile's log.

    It corrects the length silently, but for a line such as `data : 348800 (should be 174378)`.
    """
    sizes = re.findall(r": (\d+) \(should be (\d+)\)", log)
    shares = [int(told) / int(there) for told, there in sizes if 0 < int(there) < int(told)]
    is_open = any(int(told) >= UNKNOWN_LENGTH for told, _ in sizes)
    return max(shares, default=1.0) if not is_open else 1.0


def _tells_length(mp3: bytes) -> bool:
    start = 0
    if mp3.startswith(b"ID3") and len(mp3) >= 10:
        size = 0
        for byte in mp3[6:10]:
            size = size << 7 | byte & 0x7F
        start = 10 + size
    head = mp3[start : start + XING_WITHIN]
    return b"Xing" in head or b"Info" in head
