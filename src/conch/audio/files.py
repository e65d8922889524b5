"""Decode audio files to blocks of samples: by libsndfile if possible, else by FFmpeg."""

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
"""The header with an MP3's length is within this many bytes."""


class AudioFile(Protocol):
    """Interface of a file decoder."""

    sample_rate: int
    num_channels: int
    length_s: float | None
    """Length in seconds, from the header; None if the header has none."""
    warnings: list[str]
    """Problems of the file, one sentence each; complete when all blocks are read."""

    def blocks(self, block_frames: int) -> Iterator[Array]:
        """Yield the samples, FP32 [about block_frames, channels]. Call this once.

        Raises:
            AudioError: the file cannot be decoded at all.
        """
        ...


def open_file(data: bytes) -> AudioFile:
    """Open an encoded audio file.

    Raises:
        AudioError: the file has no audio that can be decoded. The message says what was found.
    """
    try:
        file = LibsndfileFile(data)
    except soundfile.LibsndfileError as error:
        opened = ContainerFile(data)
        if "malformed" in error.error_string.lower():
            opened.warnings.append(
                "the file's header is broken: the file is read as far as possible"
            )
        return opened
    if file.length_s != 0:
        return file
    try:
        opened = ContainerFile(data)
    except AudioError:
        raise AudioError("AUDIO holds no samples") from None
    opened.warnings.append(
        "the file's header has no length, as if the recording was not closed: "
        "the file is read to its end"
    )
    return opened


class LibsndfileFile:
    """A file decoded by libsndfile; see `AudioFile`."""

    def __init__(self, data: bytes) -> None:
        """Read the header.

        Raises:
            soundfile.LibsndfileError: libsndfile cannot read the file.
        """
        self._data = data
        self._file = soundfile.SoundFile(io.BytesIO(data))
        self.sample_rate: int = self._file.samplerate
        self.num_channels: int = self._file.channels
        self.warnings: list[str] = []
        # If an MP3 does not state its length, libsndfile guesses it from the first frames.
        is_stated = self._file.format != "MP3" or _states_length(data)
        self.length_s = self._file.frames / self.sample_rate if is_stated else None

    def blocks(self, block_frames: int) -> Iterator[Array]:
        """Yield the samples; see `AudioFile.blocks`."""
        done = 0
        try:
            while len(block := self._file.read(block_frames, dtype="float32", always_2d=True)):
                done += len(block)
                yield block
        except soundfile.LibsndfileError as error:
            yield from self._after_damage(done, block_frames, error.error_string)
        else:
            self._warn_if_cut_off(done / self.sample_rate)

    def _after_damage(self, done: int, block_frames: int, reason: str) -> Iterator[Array]:
        """Yield the samples after the first `done` by FFmpeg."""
        try:
            rest: AudioFile | None = ContainerFile(self._data)
        except AudioError:
            rest = None
        if rest is None or (rest.sample_rate, rest.num_channels) != (
            self.sample_rate,
            self.num_channels,
        ):
            if not done:
                raise AudioError(f"AUDIO is damaged from its beginning: {reason}")
            self.warnings.append(
                f"the file is damaged after {done / self.sample_rate:.1f} s: the rest is left out"
            )
            return
        for block in rest.blocks(block_frames):
            new = block[done:]
            done -= len(block) - len(new)
            if len(new):
                yield new
        self.warnings += rest.warnings or ["the file is damaged: parts of it may be missing"]

    def _warn_if_cut_off(self, decoded_s: float) -> None:
        stated_s = self.length_s
        if stated_s is not None and self._file.format != "MP3":
            stated_s *= _stated_by_actual(self._file.extra_info)
        if stated_s is not None and decoded_s < stated_s - CUT_OFF_S:
            self.warnings.append(
                f"the file is cut off: it has {decoded_s:.1f} of the {stated_s:.1f} s that its "
                "header says"
            )
        elif self._file.format == "OGG" and breaks_off(self._data):
            self.warnings.append(f"the file breaks off after {decoded_s:.1f} s: it may be cut off")


def _stated_by_actual(log: str) -> float:
    """Return the stated length of a file divided by the actual one, which libsndfile only logs.

    Its line is `data : 348800 (should be 174378)`.
    """
    sizes = re.findall(r": (\d+) \(should be (\d+)\)", log)
    lengths = [(int(stated), int(actual)) for stated, actual in sizes]
    ratios = [stated / actual for stated, actual in lengths if 0 < actual < stated]
    is_open = any(stated >= UNKNOWN_LENGTH for stated, _ in lengths)
    return max(ratios, default=1.0) if not is_open else 1.0


def _states_length(mp3: bytes) -> bool:
    start = 0
    if mp3.startswith(b"ID3") and len(mp3) >= 10:
        size = 0
        for byte in mp3[6:10]:
            size = size << 7 | byte & 0x7F
        start = 10 + size
    head = mp3[start : start + XING_WITHIN]
    return b"Xing" in head or b"Info" in head
