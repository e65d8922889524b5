"""What is wrong with the samples of a recording, found while they pass."""

import numpy as np

from conch.audio.blocks import peak
from conch.component import Array

FULL_SCALE = 0.99
"""Samples from here on count as clipped; a codec leaves them a little off the limit."""

CLIPPED_SHARE = 0.005
"""Share of clipped samples that is worth a warning. With 2 % no word is lost yet, with 19 % four
times as many errors were made on tests/data; a voice at full level without clipping has none."""

MAX_OFFSET = 0.02
"""Mean of the samples that is worth a warning. It is left in: on tests/data an offset of 0.3 cost
neither the VAD nor Whisper a word."""

LOW_PEAK = 0.01
"""40 dB below full scale. There Whisper makes three times as many errors on tests/data in 16 bit,
10 dB lower the VAD loses speech."""

NARROW_RATE = 8_000
"""Hz; below the rate of a telephone errors are five times as many at 4000 Hz."""

CANCELLED = 0.01
"""Power of a mix, as a share of what channels that have nothing in common give."""


class SignalFaults:
    """Gathers what is wrong with the samples of one channel, or of all that are mixed."""

    def __init__(self, name: str, subject: str, sample_rate: int) -> None:
        """Start with no samples and no faults.

        Args:
            name: of the tensor, for errors.
            subject: of the sentences, such as "channel 2".
            sample_rate: Hz.
        """
        self._name, self._subject, self._rate = name, subject, sample_rate
        self._peak = 0.0
        self._frames = 0
        self._clipped = 0
        self._cancelled = 0
        self._sums: Array = np.zeros(1)

    def mixed(self, block: Array) -> Array:
        """Take in a block, FP32 [frames, channels], and return its channels' mean, FP32 [frames].

        Where the channels cancel each other, it returns the loudest one in place of their mean.

        Raises:
            AudioError: samples that are not finite or not in [-1, 1].
        """
        highest = peak(block, self._name)
        self._peak = max(self._peak, highest)
        self._frames += len(block)
        if highest >= FULL_SCALE:
            self._clipped += np.count_nonzero(np.abs(block) >= FULL_SCALE) // block.shape[1]
        channels = np.ascontiguousarray(block.T)  # a sixth of the time for what follows
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

    def found(self) -> list[str]:
        """Return what is wrong, a sentence each."""
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
                f"the audio is sampled at {self._rate} Hz: what is above "
                f"{self._rate // 2} Hz is missing, which costs words"
            )
        if self._cancelled:
            warnings.append(
                f"the channels cancel each other for {self._cancelled / self._rate:.1f} s "
                "(opposite phase): there the loudest is transcribed in place of their mix"
            )
        return warnings
