"""Recognise audio containers by their first bytes, and decode them in pieces.

libsndfile reads files. PyAV, if it is installed, reads pipes and the containers that libsndfile
does not know (m4a, webm).
"""

import codecs
import importlib.util
import io
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import soundfile
from numpy.typing import NDArray

from conch.audio import ffmpeg
from conch.wire.errors import AudioError

Samples = NDArray[np.float32]

NUM_FIRST_BYTES = 4096
"""Bytes to look at: two frames of an mp3, of which the longest has 1441 bytes."""
NUM_SURE_BYTES = 64
"""Bytes that tell a container, or text, from raw samples."""
PROBE_BYTES = 4096
"""Bytes that FFmpeg reads from a pipe at a time, and to detect the codecs."""
BLOCK_S = 10
"""Seconds that libsndfile decodes at a time: each read loses some milliseconds of an mp3."""

_MAGIC = (
    (b"OggS", "ogg"),
    (b"fLaC", "flac"),
    (b"ID3", "mp3"),
    (b".snd", "au"),
    (b"caff", "caf"),
    (b"\x1aE\xdf\xa3", "matroska"),  # webm, mkv
)
"""First bytes of a container, and FFmpeg's name of it."""

_PYAV_KINDS = ("mp3", "mov", "matroska", "aac", "avi")
"""Containers left to PyAV: libsndfile knows only mp3 of these, and complains on stderr."""

_NOT_AUDIO = (
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff\xe0", "a picture"),
    (b"\xff\xd8\xff\xe1", "a picture"),
    (b"GIF8", "a picture"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b\x08", "a gzip archive"),
    (b"\x7fELF", "a program"),
)

_FORMS = {b"WAVE": "wav", b"AVI ": "avi", b"AIFF": "aiff", b"AIFC": "aiff"}
"""FFmpeg's names of what the containers RIFF, RF64 and FORM hold."""

_BITRATES = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_BITRATES_LOW = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
"""Bit rates of an mp3's frames below 32 kHz, in kbit/s; those above are for 32 kHz and more."""


@dataclass(frozen=True, slots=True)
class DecodedAudio:
    """Audio that is decoded as it is read."""

    sample_rate: int
    """Hz."""
    pieces: Iterator[Samples]
    """Mono FP32 [samples], of any length."""


def first_bytes(pipe: io.BufferedReader) -> bytes:
    """Return the bytes that tell a container from raw samples, as soon as they are there."""
    first = pipe.read(NUM_SURE_BYTES)
    if _is_sync(first):
        first += pipe.read(NUM_FIRST_BYTES - len(first))
    return first


def container_of(first: bytes) -> str | None:
    """Return FFmpeg's name of the container with these first bytes, None for raw samples.

    Raises:
        AudioError: the bytes are text or another format without audio.
    """
    for magic, container in _MAGIC:
        if first.startswith(magic):
            return container
    if first[:4] in (b"RIFF", b"RF64", b"FORM") and first[8:12] in _FORMS:
        return _FORMS[first[8:12]]
    if first[4:8] == b"ftyp":
        return "mov"
    for magic, kind in _NOT_AUDIO:
        if first.startswith(magic):
            raise AudioError(f"{kind}, not audio")
    if _is_text(first[:NUM_SURE_BYTES]):
        raise AudioError("text, not audio")
    return _mpeg(first)


def decoded_file(file: BinaryIO, name: str) -> DecodedAudio:
    """Return the audio of a seekable file.

    Args:
        file: closed when the audio has been read.
        name: for errors.

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
        return _decoded_by_pyav(file, None, name)
    try:
        sound = soundfile.SoundFile(file)
    except soundfile.LibsndfileError as error:
        if not is_pyav_there():
            reason = f"{error.error_string} PyAV reads more kinds: pip install av"
            raise AudioError(f"{name} cannot be read: {reason}") from None
        file.seek(0)
        return _decoded_by_pyav(file, None, name)
    return DecodedAudio(int(sound.samplerate), _pieces(file, sound, name))


def decoded_pipe(first: bytes, pipe: io.BufferedReader, container: str, name: str) -> DecodedAudio:
    """Return the audio of a container in a pipe.

    Args:
        first: bytes already read.
        pipe: the rest.
        container: FFmpeg's name of it.
        name: for errors.

    Raises:
        AudioError: it cannot be read without seeking, or PyAV is not installed.
    """
    if not is_pyav_there():
        raise AudioError(
            f"{name} is a container ({container}), which PyAV reads out of a pipe: pip install av, "
            "or name the file, or send raw samples"
        )
    return _decoded_by_pyav(_Pipe(first, pipe), container, name)


def length_of(audio: Path | bytes) -> float | None:
    """Return the seconds of audio in a file, None if the file does not tell."""
    try:
        found = soundfile.info(io.BytesIO(audio) if isinstance(audio, bytes) else str(audio))
        return float(found.duration)
    except (OSError, RuntimeError):
        pass
    if not is_pyav_there():
        return None
    import av

    try:
        with _source(audio) as source, _opened(source) as container:
            return container.duration / av.time_base if container.duration else None
    except (OSError, ValueError):  # FFmpeg's errors are both, and some of them one
        return None


def _source(audio: Path | bytes) -> BinaryIO:
    return io.BytesIO(audio) if isinstance(audio, bytes) else audio.open("rb")


def _opened(source: Any, container: str | None = None) -> Any:
    """Open a file or a pipe with FFmpeg, and forbid it to open other files.

    Args:
        source: has `read`, and `seek` unless it is a pipe.
        container: FFmpeg's name of it; None to detect it.
    """
    import av

    # Decode a pipe as it comes, without reading ahead for seconds.
    probing = {"probesize": str(PROBE_BYTES)} if container else {}
    return av.open(
        source,
        format=container,
        options={**ffmpeg.OPTIONS, **probing},
        io_open=ffmpeg.refuse_to_open,
        buffer_size=PROBE_BYTES,
    )


def is_pyav_there() -> bool:
    """Report whether PyAV is installed, without importing it."""
    return importlib.util.find_spec("av") is not None


class _Pipe:
    """A file for FFmpeg to read: the first bytes again, then the pipe as data comes."""

    def __init__(self, first: bytes, pipe: io.BufferedReader) -> None:
        self._first, self._pipe = first, pipe

    def read(self, size: int) -> bytes:
        if self._first:
            data, self._first = self._first[:size], self._first[size:]
            return data
        return self._pipe.read1(size)

    def close(self) -> None:
        self._pipe.close()


def _pieces(file: BinaryIO, sound: soundfile.SoundFile, name: str) -> Iterator[Samples]:
    with file, sound:
        try:
            while len(
                samples := sound.read(BLOCK_S * sound.samplerate, dtype="float32", always_2d=True)
            ):
                yield samples.mean(axis=1)
        except soundfile.LibsndfileError as error:
            raise AudioError(f"{name} is damaged: {error.error_string}") from None


def _decoded_by_pyav(source: Any, container: str | None, name: str) -> DecodedAudio:
    try:
        opened = _opened(source, container)
    except (OSError, ValueError) as error:
        raise AudioError(f"{name} cannot be read: {_said(error)}") from None
    if not opened.streams.audio:
        opened.close()
        raise AudioError(f"{name} has no audio in it")
    codec = opened.streams.audio[0].codec_context
    if codec is None or not ffmpeg.is_decoded(codec.codec.name):
        opened.close()
        raise AudioError(f"{name} is of a codec that is not decoded here")
    # FFmpeg would not find the index of an m4a, and report damaged audio.
    hint = " (a pipe takes an m4a with its index in front: name the file)"
    hint = hint if container == "mov" else ""
    return DecodedAudio(int(opened.streams.audio[0].rate), _frames(source, opened, name, hint))


def _frames(source: Any, opened: Any, name: str, hint: str) -> Iterator[Samples]:
    import av

    with closing(source), opened:
        stream = opened.streams.audio[0]
        resampler = av.AudioResampler(format="fltp", rate=stream.rate)
        num_samples = 0
        try:
            for packet in opened.demux(stream):
                try:
                    frames = packet.decode()
                except av.error.InvalidDataError:  # a tag between or behind frames, say
                    continue
                for frame in frames:
                    for piece in resampler.resample(frame):
                        samples: Samples = piece.to_ndarray().mean(axis=0)
                        num_samples += len(samples)
                        yield samples
        except (OSError, ValueError) as error:
            where = f"{name} is damaged after {num_samples / stream.rate:.1f} s"
            raise AudioError(f"{where}: {_said(error)}{hint}") from None
        if not num_samples:
            raise AudioError(f"{name} holds no samples")


def _said(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _is_text(first: bytes) -> bool:
    """Report whether these bytes are all text, which is unlikely for 16-bit samples."""
    try:
        # The last character may be cut off.
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(first)
    except UnicodeDecodeError:
        return False
    return bool(text) and all(char.isprintable() or char in "\t\n\r\f" for char in text)


def _is_sync(header: bytes) -> bool:
    """Report whether these bytes may begin an MPEG frame; samples from -8193 to -1 also may."""
    return len(header) >= 6 and header[0] == 0xFF and header[1] & 0xE0 == 0xE0


def _mpeg(first: bytes) -> str | None:
    """Return the format of an mp3 or AAC stream: a second frame must begin where the first ends."""
    if not _is_sync(first):
        return None
    is_aac = first[1] & 0xF6 == 0xF0
    length = _aac_frame_bytes(first) if is_aac else _mp3_frame_bytes(first)
    second = first[length : length + 6]
    if not length or not _is_sync(second) or first[1] & 0xFE != second[1] & 0xFE:
        return None
    return "aac" if is_aac else "mp3"


def _aac_frame_bytes(header: bytes) -> int:
    return (header[3] & 3) << 11 | header[4] << 3 | header[5] >> 5


def _mp3_frame_bytes(header: bytes) -> int:
    """Return the length of an MPEG layer III frame, 0 where the header is none."""
    version, layer = header[1] >> 3 & 3, header[1] >> 1 & 3
    bitrate, rate = header[2] >> 4, header[2] >> 2 & 3
    if version == 1 or layer != 1 or bitrate in (0, 15) or rate == 3:
        return 0
    is_first_version = version == 3
    sample_rate = (44_100, 48_000, 32_000)[rate] // {3: 1, 2: 2, 0: 4}[version]
    kbits = (_BITRATES if is_first_version else _BITRATES_LOW)[bitrate]
    return (144 if is_first_version else 72) * kbits * 1000 // sample_rate + (header[2] >> 1 & 1)
