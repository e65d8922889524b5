"""Live audio: a file at the speed of speech, a pipe as data comes, a microphone."""

import io
import queue
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from conch.audio.blocks import cut_to_blocks
from conch.audio.intake import AudioFile
from conch.audio.sniffing import container_of, first_bytes
from conch.client.live import NOTHING
from conch.packaged import install
from conch.wire.errors import AudioError

Samples = NDArray[np.float32]
Chunks = Iterator[Samples | NDArray[np.int16]]

ASK_S = 0.5
"""Seconds between two empty chunks while no data comes: the server looks at a pause when asked."""


@dataclass(frozen=True, slots=True)
class AudioSource:
    """Chunks of audio, each as soon as it is available."""

    sample_rate: int
    chunks: Chunks
    """Mono, float32 or int16 `[samples]`."""


def of_file(path: Path, chunk_ms: int, speed: float) -> AudioSource:
    """Return the chunks of a file, each when it would be spoken, or raise an AudioError."""
    if path.is_fifo():
        raise AudioError(f"{path} is a pipe: conch stream - reads one from stdin")
    try:
        decoded = AudioFile(path.read_bytes(), str(path))
    except OSError as error:
        raise AudioError(f"{path} cannot be read: {error.strerror}") from None
    rate = decoded.sample_rate
    return AudioSource(
        rate, _paced(cut_to_blocks(_mono(decoded), rate * chunk_ms // 1000), rate, speed)
    )


def of_stdin(sample_rate: int, channels: int, chunk_ms: int, *, is_raw: bool) -> AudioSource:
    """Return the chunks of standard input, each as soon as it is available.

    `sample_rate` is that of raw 16-bit little-endian samples; a container has its own. With
    `is_raw`, any input is read as raw samples.
    """
    # Not the reader of sys.stdin: Python cannot end while a thread waits in that one.
    pipe = io.BufferedReader(cast(io.BufferedReader, sys.stdin.buffer).raw)
    first = b"" if is_raw else first_bytes(pipe)
    if not (first or is_raw):
        raise AudioError("stdin is empty: no audio came")
    try:
        container = container_of(first)
    except AudioError as error:
        raise AudioError(f"stdin is {error}; --raw reads it as samples anyway") from None
    if container is None:
        size = sample_rate * chunk_ms // 1000 * channels * 2
        return AudioSource(sample_rate, _with_pauses(_raw(first, pipe, channels, size)))
    if pipe.seekable() and pipe.tell() == len(first):
        decoded = AudioFile(pipe, "stdin")
    else:

        def read(offset: int, size: int) -> bytes:
            nonlocal first
            data, first = first[:size], first[size:]
            return data or pipe.read1(size)

        decoded = AudioFile(read, "stdin", container=container)
    size = decoded.sample_rate * chunk_ms // 1000
    return AudioSource(decoded.sample_rate, _with_pauses(cut_to_blocks(_mono(decoded), size)))


def _mono(decoded: AudioFile) -> Iterator[Samples]:
    """Yield the mean of all channels; then warn on stderr of audio that was left out."""
    for piece in decoded.pieces():
        yield piece.mean(axis=1)
    for sentence in decoded.warnings:
        print(f"conch: {sentence}", file=sys.stderr)


def _paced(chunks: Iterable[Samples], sample_rate: int, speed: float) -> Iterator[Samples]:
    started, num_samples = time.monotonic(), 0
    for chunk in chunks:
        num_samples += len(chunk)
        if speed:
            spoken_at = started + num_samples / sample_rate / speed
            time.sleep(max(0.0, spoken_at - time.monotonic()))
        yield chunk


def _raw(first: bytes, pipe: io.BufferedReader, channels: int, size: int) -> Chunks:
    frame = 2 * channels
    held = first
    while True:
        while whole := min(len(held), max(size, frame)) // frame * frame:
            samples = np.frombuffer(held[:whole], dtype="<i2").reshape(-1, channels)
            held = held[whole:]
            yield samples[:, 0] if channels == 1 else samples.mean(axis=1).astype(np.int16)
        # read1 returns available bytes: do not wait until a slow pipe has filled a chunk.
        if not (data := pipe.read1(size)):
            return
        held += data


def _with_pauses(chunks: Chunks) -> Chunks:
    """Yield chunks that a thread reads; after the first, yield empty ones while none comes."""
    incoming: queue.Queue[Any] = queue.Queue(1)

    def read() -> None:
        try:
            for chunk in chunks:
                incoming.put(chunk)
        except Exception as error:
            incoming.put(error)
        incoming.put(None)

    threading.Thread(target=read, name="conch-stdin", daemon=True).start()
    item = incoming.get()
    while item is not None:
        if isinstance(item, Exception):
            raise item
        yield item
        try:
            item = incoming.get(timeout=ASK_S)
        except queue.Empty:
            item = NOTHING


def of_microphone(sample_rate: int, chunk_ms: int) -> AudioSource:
    """Return the audio of the default microphone, until interrupted."""
    try:
        import sounddevice
    except ImportError:
        raise AudioError(
            f"--mic needs sounddevice; {install('mic')}; and the library PortAudio: "
            "apt-get install libportaudio2"
        ) from None
    except OSError as error:
        raise AudioError(
            f"--mic needs the library PortAudio: apt-get install libportaudio2 ({error})"
        ) from None
    return AudioSource(sample_rate, _recorded(sounddevice, sample_rate, chunk_ms))


def _recorded(sounddevice: Any, sample_rate: int, chunk_ms: int) -> Chunks:
    recorded: queue.SimpleQueue[NDArray[np.float32]] = queue.SimpleQueue()
    try:
        with sounddevice.InputStream(
            samplerate=sample_rate,
            channels=1,
            blocksize=sample_rate * chunk_ms // 1000,
            dtype="float32",
            callback=lambda samples, *_: recorded.put(samples[:, 0].copy()),
        ):
            while True:
                yield recorded.get()
    except sounddevice.PortAudioError as error:
        raise AudioError(f"no microphone: {error}") from None
