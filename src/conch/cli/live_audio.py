"""Audio as it is spoken: a file at the speed of speech, raw samples from a pipe, a microphone."""

import io
import queue
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import soundfile
from numpy.typing import NDArray

from conch.errors import AudioError

Chunks = Iterator[NDArray[np.float32] | NDArray[np.int16]]


def file_rate(path: Path) -> int:
    """Return the sample rate of a file, in Hz.

    Raises:
        AudioError: it is not there or not audio.
    """
    try:
        return int(soundfile.info(path).samplerate)
    except (OSError, soundfile.LibsndfileError) as error:
        raise AudioError(f"{path} cannot be read: {error}") from None


def paced_file(path: Path, chunk_ms: int, speed: float) -> Chunks:
    """Yield a file's chunks, mono, each when it would have been spoken.

    Args:
        path: what libsndfile reads.
        chunk_ms: of a chunk.
        speed: 1 is real time, 0 as fast as they are taken.
    """
    started = time.monotonic()
    with soundfile.SoundFile(path) as file:
        block = file.samplerate * chunk_ms // 1000
        while len(samples := file.read(block, dtype="float32", always_2d=True)):
            if speed:
                spoken_at = started + file.tell() / file.samplerate / speed
                time.sleep(max(0.0, spoken_at - time.monotonic()))
            yield samples.mean(axis=1)


def raw_stdin(sample_rate: int, channels: int, chunk_ms: int) -> Chunks:
    """Yield chunks of raw 16-bit little-endian samples from standard input, as they come."""
    frame = 2 * channels
    size = sample_rate * chunk_ms // 1000 * frame
    held = b""
    # read1 returns what is there: a pipe that is slow must not fill a whole chunk first.
    pipe = cast(io.BufferedReader, sys.stdin.buffer)
    while data := pipe.read1(size):
        held += data
        whole = len(held) // frame * frame
        if whole:
            samples = np.frombuffer(held[:whole], dtype="<i2").reshape(-1, channels)
            held = held[whole:]
            yield samples[:, 0] if channels == 1 else samples.mean(axis=1).astype(np.int16)


def microphone(sample_rate: int, chunk_ms: int) -> Chunks:
    """Yield what the default microphone hears, until interrupted.

    Raises:
        AudioError: the package sounddevice is not installed, or there is no microphone.
    """
    try:
        import sounddevice
    except (ImportError, OSError) as error:  # OSError: PortAudio is missing
        raise AudioError(f"--mic needs: pip install 'conch[mic]' ({error})") from None
    heard: queue.SimpleQueue[NDArray[np.float32]] = queue.SimpleQueue()
    try:
        with sounddevice.InputStream(
            samplerate=sample_rate,
            channels=1,
            blocksize=sample_rate * chunk_ms // 1000,
            dtype="float32",
            callback=lambda samples, *_: heard.put(samples[:, 0].copy()),
        ):
            while True:
                yield heard.get()
    except sounddevice.PortAudioError as error:
        raise AudioError(f"no microphone: {error}") from None
