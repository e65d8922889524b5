"""Audio as it arrives, turned block by block into 16 kHz mono: nothing is held whole twice."""

import io
from collections.abc import Iterable, Iterator

import numpy as np
import soundfile
import soxr

from conch.component import Array
from conch.errors import AudioError
from conch.segmentation import FRAME_SAMPLES, SAMPLE_RATE

BLOCK_SAMPLES = 1024 * FRAME_SAMPLES
"""Samples per block, 32.8 s: a whole utterance goes through the VAD in one call."""

MIN_SAMPLE_RATE = 4_000
MAX_SAMPLE_RATE = 192_000

MAX_PEAK = 10.0
"""Codecs overshoot full scale a little; integer samples sent as floats exceed it by far."""


class AudioBlocks(Iterator[Array]):
    """Blocks of 16 kHz mono, FP32 [BLOCK_SAMPLES] each, the last one shorter; read once."""

    def __init__(self, blocks: Iterable[Array], *, are_at_hand: bool = False) -> None:
        self._blocks = iter(blocks)
        self.are_at_hand = are_at_hand
        """Whether nothing is decoded or resampled for the next one: it takes half a millisecond."""
        self.num_samples = 0
        """Samples read so far."""

    def __next__(self) -> Array:
        block = next(self._blocks)
        self.num_samples += len(block)
        return block


def waveform_blocks(waveform: Array, sample_rate: int, max_audio_s: float) -> AudioBlocks:
    """Return a waveform as blocks of 16 kHz mono.

    Args:
        waveform: FP32 [samples] in [-1, 1], mono.
        sample_rate: Hz.
        max_audio_s: The longest audio taken, in seconds.

    Raises:
        AudioError: empty, too long, or a sample rate that no recording has; while the blocks
            are read, also samples that are not finite or not in [-1, 1].
    """
    _check_rate(sample_rate, "SAMPLE_RATE")
    if len(waveform) == 0:
        raise AudioError("WAV is empty: send at least one sample")
    _check_duration(len(waveform) / sample_rate, max_audio_s)
    step = BLOCK_SAMPLES
    blocks = (waveform[start : start + step] for start in range(0, len(waveform), step))
    cut = _cut_to_blocks(_resampled(_checked(blocks, "WAV"), sample_rate))
    return AudioBlocks(cut, are_at_hand=sample_rate == SAMPLE_RATE)


def file_blocks(data: bytes, max_audio_s: float) -> AudioBlocks:
    """Return an encoded audio file (what libsndfile reads) as blocks of 16 kHz mono.

    Channels are averaged.

    Raises:
        AudioError: not decodable, empty, too long, or a sample rate that no recording has; while
            the blocks are read, also a file that is damaged, or shorter than its header says where
            the format tells (wav, ogg and opus are read as far as they go), and what
            `waveform_blocks` raises there.
    """
    try:
        file = soundfile.SoundFile(io.BytesIO(data))
    except soundfile.LibsndfileError as error:
        raise AudioError(
            f"AUDIO cannot be decoded ({len(data)} bytes): {error.error_string} "
            "It takes a whole file of a kind that libsndfile reads: wav, flac, ogg, mp3, …"
        ) from None
    if file.frames == 0:
        raise AudioError("AUDIO holds no samples")
    _check_rate(file.samplerate, "the sample rate of AUDIO")
    if _knows_its_length(file):
        _check_duration(file.frames / file.samplerate, max_audio_s)
    decoded = _decoded(file, max_audio_s)
    return AudioBlocks(_cut_to_blocks(_resampled(_checked(decoded, "AUDIO"), file.samplerate)))


class StreamAudio:
    """The chunks of one stream, cut anew into steps of 16 kHz mono, all of one length."""

    def __init__(self, sample_rate: int, step_samples: int) -> None:
        """Stand before the first sample.

        Args:
            sample_rate: Hz, of the chunks.
            step_samples: of a step, at 16 kHz.

        Raises:
            AudioError: a sample rate that no recording has.
        """
        _check_rate(sample_rate, "SAMPLE_RATE")
        self.sample_rate = sample_rate
        self._step = step_samples
        self._held = np.zeros(0, np.float32)
        self._resampler = None
        if sample_rate != SAMPLE_RATE:
            self._resampler = soxr.ResampleStream(sample_rate, SAMPLE_RATE, 1, dtype="float32")

    def steps(self, chunk: Array, *, ends: bool) -> list[tuple[Array, bool]]:
        """Return the steps that are complete with a chunk, each with whether it is the last.

        The last one of a stream may be shorter, or empty where nothing else could be the last.

        Args:
            chunk: FP32 [samples] in [-1, 1].
            ends: whether it is the stream's last.

        Raises:
            AudioError: samples that are not finite or not in [-1, 1]; the stream is as before.
        """
        if len(chunk):
            (chunk,) = _checked([chunk], "WAV")
        if self._resampler is not None:
            chunk = self._resampler.resample_chunk(chunk, last=ends)
        held = np.concatenate([self._held, chunk])
        whole = len(held) // self._step
        cuts = [self._step * number for number in range(1, whole + 1)]
        *steps, rest = np.split(held, cuts)
        self._held = rest.copy()
        if ends and (len(rest) or not steps):
            steps.append(rest)
        return [(step, ends and number == len(steps)) for number, step in enumerate(steps, 1)]


def _check_rate(sample_rate: int, name: str) -> None:
    if not MIN_SAMPLE_RATE <= sample_rate <= MAX_SAMPLE_RATE:
        raise AudioError(
            f"{name} takes {MIN_SAMPLE_RATE} to {MAX_SAMPLE_RATE} Hz; sent: {sample_rate}"
        )


def _check_duration(seconds: float, max_audio_s: float) -> None:
    if seconds > max_audio_s:
        raise AudioError(
            f"the audio is {seconds:.1f} s long; this server takes at most {max_audio_s:g} s "
            "(parameter max_audio_s of the model)"
        )


def _knows_its_length(file: soundfile.SoundFile) -> bool:
    # Of an MP3 without a Xing header libsndfile guesses the length from the first frames.
    return bool(file.format != "MP3")


def _decoded(file: soundfile.SoundFile, max_audio_s: float) -> Iterator[Array]:
    decoded = 0
    try:
        while len(block := file.read(BLOCK_SAMPLES, dtype="float32", always_2d=True)):
            decoded += len(block)
            _check_duration(decoded / file.samplerate, max_audio_s)
            yield block.mean(axis=1)
    except soundfile.LibsndfileError as error:
        raise AudioError(
            f"AUDIO is damaged after {decoded / file.samplerate:.1f} s: {error.error_string}"
        ) from None
    if _knows_its_length(file) and decoded < file.frames:
        raise AudioError(
            f"AUDIO is truncated: {decoded / file.samplerate:.1f} of "
            f"{file.frames / file.samplerate:.1f} s could be decoded"
        )


def _checked(blocks: Iterable[Array], name: str) -> Iterator[Array]:
    for block in blocks:
        peak = max(float(block.max()), -float(block.min()))
        if not np.isfinite(peak):
            raise AudioError(f"{name} has samples that are NaN or infinite")
        if peak > MAX_PEAK:
            raise AudioError(
                f"{name} reaches {peak:g}; samples are in [-1, 1]: divide 16-bit samples by 32768"
            )
        yield block


def _resampled(blocks: Iterator[Array], sample_rate: int) -> Iterator[Array]:
    if sample_rate == SAMPLE_RATE:
        yield from blocks
        return
    resampler = soxr.ResampleStream(sample_rate, SAMPLE_RATE, 1, dtype="float32", quality="HQ")
    for block in blocks:
        yield resampler.resample_chunk(block)
    yield resampler.resample_chunk(np.zeros(0, np.float32), last=True)


def _cut_to_blocks(pieces: Iterable[Array]) -> Iterator[Array]:
    """Cut pieces of any length into blocks of BLOCK_SAMPLES and a rest."""
    held: list[Array] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        while size >= BLOCK_SAMPLES:
            joined = np.concatenate(held) if len(held) > 1 else held[0]
            yield joined[:BLOCK_SAMPLES]
            size -= BLOCK_SAMPLES
            held = [joined[BLOCK_SAMPLES:]] if size else []
    if size:
        yield np.concatenate(held) if len(held) > 1 else held[0]
