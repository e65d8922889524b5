"""Decode audio containers in pieces by PyAV (FFmpeg), from files and pipes; find their length.

PyAV may be missing: the command line works without it.
"""

import importlib.util
import io
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import IO, Any, Protocol

import numpy as np
import soundfile
from numpy.typing import NDArray

from conch.audio import ffmpeg
from conch.wire.errors import AudioError

Samples = NDArray[np.float32]

PROBE_BYTES = 4096
"""Bytes that FFmpeg reads from a pipe at a time, and to detect the codecs."""


@dataclass(frozen=True, slots=True)
class DecodedAudio:
    """Audio that is decoded while it is read."""

    sample_rate: int
    """Hz."""
    pieces: Iterator[Samples]
    """Mono FP32 [samples], of any length."""


def decoded_pipe(first: bytes, pipe: io.BufferedReader, container: str, name: str) -> DecodedAudio:
    """Return the audio of a container in a pipe, whose first bytes are read; errors have `name`.

    Raises:
        AudioError: the container cannot be read without seeking, or PyAV is not installed.
    """
    if not is_pyav_there():
        raise AudioError(
            f"{name} is a container ({container}), and reading one from a pipe needs PyAV: "
            "pip install av, or name the file, or send raw samples"
        )
    return decoded_by_pyav(_Pipe(first, pipe), container, name)


class Source(Protocol):
    """Bytes for FFmpeg to read."""

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes as soon as some have come, none at the end."""
        ...

    def close(self) -> None:
        """End; no more is read."""
        ...


def opened_by_pyav(source: Any, container: str | None = None) -> Any:
    """Open a file or a pipe with FFmpeg, and forbid it to open other files.

    The source has `read`, and `seek` unless it is a pipe. FFmpeg detects its container unless its
    name is given.
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


def length_of(file: IO[bytes]) -> float | None:
    """Return the seconds of audio that a seekable file states; None if it states none.

    The file may be wrong: only decoding shows how much audio it has.
    """
    file.seek(0)
    try:
        return float(soundfile.info(file).duration)
    except (OSError, RuntimeError):
        pass
    if not is_pyav_there():
        return None
    import av

    file.seek(0)
    try:
        with opened_by_pyav(file) as container:
            return container.duration / av.time_base if container.duration else None
    except (OSError, ValueError):  # each of FFmpeg's errors is at least one of these
        return None


def is_pyav_there() -> bool:
    """Report whether PyAV is installed, without importing it."""
    return importlib.util.find_spec("av") is not None


class _Pipe:
    """A file for FFmpeg: the bytes already read, then the pipe as data comes."""

    def __init__(self, first: bytes, pipe: io.BufferedReader) -> None:
        self._first, self._pipe = first, pipe

    def read(self, size: int) -> bytes:
        if self._first:
            data, self._first = self._first[:size], self._first[size:]
            return data
        return self._pipe.read1(size)

    def close(self) -> None:
        self._pipe.close()


def decoded_by_pyav(
    source: Source, container: str | None, name: str, sample_rate: int | None = None
) -> DecodedAudio:
    """Return the audio of a source, as FFmpeg decodes it.

    Args:
        source: has `seek` as well, unless it is a pipe; closed when the audio has been read.
        container: FFmpeg's name of the container; None to detect it in a file.
        name: name of the audio in errors.
        sample_rate: Hz to convert to; None to keep that of the audio.

    Raises:
        AudioError: the source has no audio of a known codec.
    """
    try:
        opened = opened_by_pyav(source, container)
    except (OSError, ValueError) as error:
        raise AudioError(f"{name} cannot be read: {_said(error)}") from None
    if not opened.streams.audio:
        opened.close()
        raise AudioError(f"{name} has no audio")
    codec = opened.streams.audio[0].codec_context
    if codec is None or not ffmpeg.is_decoded(codec.codec.name):
        opened.close()
        raise AudioError(f"the audio codec of {name} is not supported")
    # Without the index of an m4a, FFmpeg reports damaged audio.
    hint = " (in a pipe, an m4a needs its index in front: name the file instead)"
    hint = hint if container == "mov" else ""
    rate = int(sample_rate or opened.streams.audio[0].rate)
    return DecodedAudio(rate, _pieces(source, opened, name, hint, rate))


def _pieces(source: Source, opened: Any, name: str, hint: str, rate: int) -> Iterator[Samples]:
    import av

    with closing(source), opened:
        stream = opened.streams.audio[0]
        resampler = av.AudioResampler(format="fltp", rate=rate)
        num_samples = 0
        try:
            for frame in _frames_and_end(opened, stream):
                for piece in resampler.resample(frame):
                    samples: Samples = piece.to_ndarray().mean(axis=0)
                    num_samples += len(samples)
                    yield samples
        except (OSError, ValueError) as error:
            where = f"{name} is damaged after {num_samples / rate:.1f} s"
            raise AudioError(f"{where}: {_said(error)}{hint}") from None
        if not num_samples:
            raise AudioError(f"{name} holds no samples")


def _frames_and_end(opened: Any, stream: Any) -> Iterator[Any]:
    """Yield the decoded frames, then None, which makes a resampler return the samples it kept."""
    import av

    for packet in opened.demux(stream):
        # Not all is audio: a tag may stand between or after the frames.
        with suppress(av.error.InvalidDataError):
            yield from packet.decode()
    yield None


def _said(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
