"""Find faults in the samples of a recording while it is read."""

import numpy as np

from conch.audio.limits import peak
from conch.component import Array

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

    def found(self) -> list[str]:
        """Return the faults, one sentence each."""
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
