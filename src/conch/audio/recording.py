"""Open recordings: their channels as blocks of 16 kHz mono, and warnings about their audio."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from conch.audio.blocks import BLOCK_SAMPLES, AudioBlocks, cut_to_blocks, resampled
from conch.audio.intake import AudioFile
from conch.audio.limits import check_duration, check_rate
from conch.audio.signal_faults import SignalFaults
from conch.component import SAMPLE_RATE, Array, FloatArray
from conch.wire.errors import AudioError, OptionError

Channels = Literal["mix", "split"] | int
"""All channels mixed, each by itself, or one by its number from 1."""
MIX = 0
"""Channel number of the mix of all channels."""
MAX_CHANNELS = 64
MAX_SPLIT_CHANNELS = 8
"""Limit of `split`, because each channel is decoded and recognised separately."""
GUESSED_BYTES_PER_S = 4000
"""Bytes of a second if a file's header has no length: few, as in speech of low quality."""
SAME = 1e-4
"""Channels that differ by less than this, 80 dB below full scale, hold the same signal."""

STEP = np.float32(2**-15)
"""Difference of two neighbouring 16-bit samples. A power of two, so that no sample is rounded."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One row of a request, opened."""

    channels: Mapping[int, AudioBlocks]
    """The channels to recognise by number from 1, or MIX alone."""
    length_s: float
    """Length in seconds: from the header of a file, or guessed from its bytes."""
    warnings_at_opening: tuple[str, ...] = ()
    """Problems found when the recording was opened, one sentence each."""

    @property
    def duration(self) -> float:
        """Seconds read so far."""
        return max(blocks.num_samples for blocks in self.channels.values()) / SAMPLE_RATE

    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems of the audio, one sentence each; complete when all blocks are read."""
        found = [sentence for blocks in self.channels.values() for sentence in blocks.warnings]
        return tuple(dict.fromkeys((*self.warnings_at_opening, *found)))


def waveform_recording(
    waveform: Array, sample_rate: int, max_audio_s: float, channels: Channels = "mix"
) -> Recording:
    """Return a waveform as a recording.

    Args:
        waveform: Mono, FP32 [samples] in [-1, 1], or INT16 [samples]. INT16 takes half the memory,
            because it becomes floats block by block.
        sample_rate: Hz.
        max_audio_s: Longest audio, in seconds.
        channels: The option of the request.

    Raises:
        AudioError: the waveform is empty or too long, or its sample rate is out of range. While
            the blocks are read: a sample is not finite, or far outside [-1, 1].
        OptionError: the recording does not have the channel.
    """
    check_rate(sample_rate, "SAMPLE_RATE")
    name = tensor_of(waveform)
    if len(waveform) == 0:
        raise AudioError(f"{name} is empty: send at least one sample")
    check_duration(len(waveform) / sample_rate, max_audio_s)
    (number,) = _chosen(channels, 1, name)
    step = BLOCK_SAMPLES
    column = waveform[:, np.newaxis]
    blocks = (as_floats(column[start : start + step]) for start in range(0, len(column), step))
    faults = SignalFaults(name, "the audio", sample_rate)
    are_at_hand = sample_rate == SAMPLE_RATE
    mono = _mono(blocks, faults, sample_rate, [], are_at_hand=are_at_hand)
    return Recording({number: mono}, len(waveform) / sample_rate)


def file_recording(data: bytes, max_audio_s: float, channels: Channels = "mix") -> Recording:
    """Return an encoded audio file as a recording.

    With `channels` split, the file is decoded once per channel, so that no channel waits for
    another. A damaged file is read as far as possible, with a warning.

    Raises:
        AudioError: the file cannot be decoded, is empty or too long, has too many channels, or its
            sample rate is out of range. While the blocks are read: see `waveform_recording`.
        OptionError: the recording does not have the channel, or has too many to split.
    """
    file = _checked_file(data, max_audio_s)
    numbers = _chosen(channels, file.num_channels, "AUDIO")
    warnings = []
    if len(numbers) > 1 and _are_the_same(AudioFile(data), max_audio_s):
        warnings.append(
            f"the {len(numbers)} channels are the same: they are transcribed once, as channel 1"
        )
        numbers = (1,)
    blocks = {numbers[0]: _channel(file, numbers[0], max_audio_s)}
    blocks |= {number: _channel(AudioFile(data), number, max_audio_s) for number in numbers[1:]}
    length_s = len(data) / GUESSED_BYTES_PER_S if file.length_s is None else file.length_s
    return Recording(blocks, min(length_s, max_audio_s), tuple(warnings))


def _checked_file(data: bytes, max_audio_s: float) -> AudioFile:
    file = AudioFile(data)
    if file.num_channels > MAX_CHANNELS:
        raise AudioError(f"AUDIO takes 1 to {MAX_CHANNELS} channels; sent: {file.num_channels}")
    if file.length_s is not None:
        check_duration(file.length_s, max_audio_s)
    return file


def _chosen(channels: Channels, num_channels: int, name: str) -> tuple[int, ...]:
    """Return the numbers of the channels to recognise."""
    if channels == "mix":
        return (MIX,)
    if channels == "split":
        if num_channels > MAX_SPLIT_CHANNELS:
            raise OptionError(
                f"option 'channels' splits at most {MAX_SPLIT_CHANNELS} channels; {name} has "
                f"{num_channels}: choose one by its number, or mix"
            )
        return tuple(range(1, num_channels + 1))
    if channels > num_channels:
        what = "1 channel" if num_channels == 1 else f"{num_channels} channels"
        raise OptionError(
            f"option 'channels' takes a channel of the audio; {name} has {what}; sent: {channels}"
        )
    return (channels,)


def _channel(file: AudioFile, number: int, max_audio_s: float) -> AudioBlocks:
    subject = f"channel {number}" if number and file.num_channels > 1 else "the audio"
    faults = SignalFaults("AUDIO", subject, file.sample_rate)
    blocks = _limited(file, max_audio_s)
    if number:
        blocks = (block[:, number - 1 : number] for block in blocks)
    return _mono(blocks, faults, file.sample_rate, file.warnings)


def _mono(
    blocks: Iterable[Array],
    faults: SignalFaults,
    sample_rate: int,
    warnings: list[str],
    *,
    are_at_hand: bool = False,
) -> AudioBlocks:
    """Return blocks, FP32 [frames, channels], as mixed blocks of 16 kHz mono."""

    def mixed() -> Iterator[Array]:
        for block in blocks:
            yield faults.mixed(block)
        warnings.extend(faults.found())

    pieces = resampled(mixed(), sample_rate)
    return AudioBlocks(cut_to_blocks(pieces), are_at_hand=are_at_hand, warnings=warnings)


def _limited(file: AudioFile, max_audio_s: float) -> Iterator[Array]:
    """Yield a file's blocks, shorter ones if it has many channels, up to the longest audio."""
    frames = 0
    for block in file.blocks(BLOCK_SAMPLES // file.num_channels):
        frames += len(block)
        check_duration(frames / file.sample_rate, max_audio_s)
        yield block


def _are_the_same(file: AudioFile, max_audio_s: float) -> bool:
    blocks = _limited(file, max_audio_s)
    return all(np.abs(block - block[:, :1]).max() < SAME for block in blocks)


def tensor_of(samples: Array) -> str:
    """Return the name of the tensor that carries samples of this type."""
    return "PCM16" if samples.dtype == np.int16 else "WAV"


def as_floats(samples: Array) -> FloatArray:
    """Return samples of any shape as FP32; INT16 is divided by 32768, FP32 stays as it is."""
    if samples.dtype != np.int16:
        return samples
    return np.multiply(samples, STEP, dtype=np.float32)
