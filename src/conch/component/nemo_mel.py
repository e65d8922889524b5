"""Log-mel features for models of NeMo, with the numbers with which sherpa-onnx feeds them."""

from dataclasses import dataclass

import numpy as np

from conch.component.arrays import FloatArray
from conch.component.kaldi_fbank import KaldiFbank, icefall_options

_GUARD = 2.0**-24
_LEAST_DEVIATION = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class NemoMel:
    """Features of NeMo: windows of 25 ms every 10 ms, and filters of Slaney from 0 Hz on."""

    num_mels: int = 80
    window: str = "hann"
    """hann or povey."""
    highest_hz: float = 8000.0
    """End of the last filter."""
    is_normalised: bool = False
    """Whether each filter has mean 0 and deviation 1 in a whole recording: NeMo's `per_feature`."""

    def stream(self) -> KaldiFbank:
        """Return the frames of a live stream, which are not normalised."""
        return self._stream(has_log=True)

    def whole(self, waveform: FloatArray) -> FloatArray:
        """Return float32 `[frames, num_mels]` of float32 `[samples]` in [-1, 1] at 16 kHz."""
        if not self.is_normalised:
            return self.stream().whole(waveform)
        log = np.log(self._stream(has_log=False).whole(waveform) + np.float32(_GUARD))
        found: FloatArray = (log - log.mean(axis=0)) / (log.std(axis=0) + _LEAST_DEVIATION)
        return found.astype(np.float32, copy=False)

    def _stream(self, *, has_log: bool) -> KaldiFbank:
        options = icefall_options(self.num_mels)
        options.frame_opts.remove_dc_offset = False
        options.frame_opts.window_type = self.window
        options.mel_opts.low_freq, options.mel_opts.high_freq = 0.0, self.highest_hz
        options.mel_opts.is_librosa = True
        options.use_log_fbank = has_log
        return KaldiFbank(self.num_mels, options)
