"""Open recordings: their channels as blocks of 16 kHz mono, and warnings about their audio."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from conch.audio.blocks import BLOCK_SAMPLES, AudioBlocks, cut_to_blocks, resampled
from conch.audio.intake import AudioFile
from conch.audio.limits import check_duration, check_rate, peak
from conch.component import SAMPLE_RATE, Array, FloatArray
from conch.wire.errors import AudioError, OptionError

FULL_SCALE = 0.99
"""Smallest level of a clipped sample; below 1, because codecs change levels a little."""
CLIPPED_SHARE = 0.005
"""Smallest share of clipped samples for a warning. On tests/data, 2 % cost no word and 19 % gave
four times the errors. A voice at full level without clipping has none."""
MAX_OFFSET = 0.02
"""Smallest mean of the samples for a warning. The offset stays in the audio: on tests/data, an
offset of 0.3 cost no word."""
LOW_PEAK = 0.01
"""Peak below which to warn: 40 dB below full scale. There, Whisper makes three times the errors on
tests/data in 16 bit. 10 dB lower, the VAD loses speech."""
NARROW_RATE = 8_000
"""Warn below this sample rate in Hz, that of a telephone. 4000 Hz gives five times the errors."""
CANCELLED = 0.01
"""Channels cancel each other if the power of their mix is below this share of that of unrelated
channels."""
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


class SignalFaults:
    """Finds faults in the samples of one channel, or of a mix of channels."""

    def __init__(self, name: str, subject: str, sample_rate: int) -> None:
        """Take the name of the tensor, and the subject of the warnings."""
        self._name, self._subject, self._rate = name, subject, sample_rate
        self._peak = 0.0
        self._frames = 0
        self._clipped = 0
        self._cancelled = 0
        self._sums: Array = np.zeros(1)

    def mixed(self, block: Array) -> Array:
        """Add a block, FP32 [frames, channels], and return the mean of its channels, FP32 [frames].

        If the channels cancel each other, return the loudest one instead. Raise an AudioError if a
        sample is not finite, or far outside [-1, 1].
        """
        highest = peak(block, self._name)
        self._peak = max(self._peak, highest)
        self._frames += len(block)
        if highest >= FULL_SCALE:
            self._clipped += np.count_nonzero(np.abs(block) >= FULL_SCALE) // block.shape[1]
        channels = np.ascontiguousarray(block.T)  # makes the next lines six times faster
        self._sums = self._sums + [channel.sum() for channel in channels]
        if len(channels) == 1:
            only: Array = channels[0]
            return only
        mix: Array = channels.mean(axis=0)
        powers = [float(np.dot(channel, channel)) for channel in channels]
        if float(np.dot(mix, mix)) >= CANCELLED * sum(powers) / len(powers) ** 2:
            return mix
        self._cancelled += len(block)
        loudest: Array = channels[int(np.argmax(powers))]
        return loudest

    def warnings(self) -> list[str]:
        if not self._frames:
            return []
        warnings = []
        clipped = self._clipped / self._frames
        offset = float(max(self._sums / self._frames, key=abs))
        if self._peak == 0:
            warnings.append(f"{self._subject} is silent: every sample is 0")
        elif self._peak < LOW_PEAK:
            level = 20 * np.log10(self._peak)
            warnings.append(
                f"{self._subject} is very quiet: its loudest sample is at {level:.0f} dB of full "
                "scale"
            )
        if clipped >= CLIPPED_SHARE:
            warnings.append(
                f"{self._subject} is clipped: {clipped:.1%} of the samples are at full scale"
            )
        if abs(offset) >= MAX_OFFSET:
            warnings.append(f"{self._subject} has a DC offset of {offset:.2f} of full scale")
        if self._rate < NARROW_RATE:
            warnings.append(
                f"the audio is sampled at {self._rate} Hz: frequencies above "
                f"{self._rate // 2} Hz are missing, which costs words"
            )
        if self._cancelled:
            warnings.append(
                f"the channels cancel each other for {self._cancelled / self._rate:.1f} s "
                "(opposite phase): there the loudest is transcribed instead of their mix"
            )
        return warnings


@dataclass(frozen=True, slots=True)
class Recording:
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
        sentences = [sentence for blocks in self.channels.values() for sentence in blocks.warnings]
        return tuple(dict.fromkeys((*self.warnings_at_opening, *sentences)))


def waveform_recording(
    waveform: Array, sample_rate: int, max_audio_s: float, channels: Channels = "mix"
) -> Recording:
    """Return a waveform as a recording: mono, FP32 [samples] in [-1, 1], or INT16 [samples].

    INT16 takes half the memory, because it becomes floats block by block. Raise an AudioError if it
    is empty or too long, or its sample rate is out of range. Reading the blocks raises one for a
    sample that is not finite or far outside [-1, 1]. Raise an OptionError if it lacks the channel.
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
    another. A damaged file is read as far as possible, with a warning. Errors are those of
    `waveform_recording`. Raise an AudioError too if the file cannot be decoded or has too many
    channels, and an OptionError if it has too many to split.
    """
    file = AudioFile(data)
    if file.num_channels > MAX_CHANNELS:
        raise AudioError(f"AUDIO takes 1 to {MAX_CHANNELS} channels; sent: {file.num_channels}")
    if file.length_s is not None:
        check_duration(file.length_s, max_audio_s)
    numbers = _chosen(channels, file.num_channels, "AUDIO")
    warnings = []
    if len(numbers) > 1 and all(
        np.abs(block - block[:, :1]).max() < SAME
        for block in _limited(AudioFile(data), max_audio_s)
    ):
        warnings.append(
            f"the {len(numbers)} channels are the same: they are transcribed once, as channel 1"
        )
        numbers = (1,)
    blocks = {numbers[0]: _channel(file, numbers[0], max_audio_s)}
    blocks |= {number: _channel(AudioFile(data), number, max_audio_s) for number in numbers[1:]}
    length_s = len(data) / GUESSED_BYTES_PER_S if file.length_s is None else file.length_s
    return Recording(blocks, min(length_s, max_audio_s), tuple(warnings))


def _chosen(channels: Channels, num_channels: int, name: str) -> tuple[int, ...]:
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
        warnings.extend(faults.warnings())

    pieces = resampled(mixed(), sample_rate)
    return AudioBlocks(cut_to_blocks(pieces), are_at_hand=are_at_hand, warnings=warnings)


def _limited(file: AudioFile, max_audio_s: float) -> Iterator[Array]:
    """Yield a file's blocks, shorter ones if it has many channels, up to the longest audio."""
    frames = 0
    for block in file.blocks(BLOCK_SAMPLES // file.num_channels):
        frames += len(block)
        check_duration(frames / file.sample_rate, max_audio_s)
        yield block


def tensor_of(samples: Array) -> str:
    """Return the name of the tensor that carries samples of this type."""
    return "PCM16" if samples.dtype == np.int16 else "WAV"


def as_floats(samples: Array) -> FloatArray:
    """Return samples of any shape as FP32; INT16 is divided by 32768, FP32 stays as it is."""
    if samples.dtype != np.int16:
        return samples
    return np.multiply(samples, STEP, dtype=np.float32)
