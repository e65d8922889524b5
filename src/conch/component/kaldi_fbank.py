"""Log-mel filter banks by Kaldi's own code, for audio that arrives in pieces.

Models of NeMo get the numbers with which sherpa-onnx feeds them.
"""

from dataclasses import dataclass
from typing import Any

import kaldi_native_fbank as knf
import numpy as np

from conch.component import SAMPLE_RATE, FloatArray

FRAME_S = 0.01
"""Seconds from one frame to the next."""

_GUARD = 2.0**-24
_LEAST_DEVIATION = 1e-5


def icefall_options(num_mels: int) -> Any:
    """Return the settings of icefall: windows of 25 ms every 10 ms, the first and the last ones
    mirrored at the edges, filters from 20 to 7600 Hz, and no dither.
    """
    options = knf.FbankOptions()
    options.frame_opts.samp_freq = SAMPLE_RATE
    options.frame_opts.dither = 0.0
    options.frame_opts.snip_edges = False
    options.mel_opts.num_bins = num_mels
    options.mel_opts.low_freq, options.mel_opts.high_freq = 20.0, -400.0
    return options


def default_options(num_mels: int) -> Any:
    """Return Kaldi's own settings, without dither: whole windows alone, filters up to 8000 Hz."""
    options = icefall_options(num_mels)
    options.frame_opts.snip_edges, options.mel_opts.high_freq = True, 0.0
    return options


class KaldiFbank:
    """The frames of one stream. They do not depend on the pieces in which it arrives."""

    def __init__(self, num_mels: int, options: Any = None, scale: float = 1.0) -> None:
        """By default `options` are icefall's; samples are multiplied by `scale`."""
        self._online = knf.OnlineFbank(options or icefall_options(num_mels))
        self._num_mels, self._scale = num_mels, np.float32(scale)
        self._first = 0

    @property
    def ready(self) -> int:
        """Number of frames so far, with those that were dropped."""
        return int(self._online.num_frames_ready)

    def accept(self, waveform: FloatArray) -> None:
        """Take the next samples, float32 `[samples]`."""
        self._online.accept_waveform(SAMPLE_RATE, (waveform * self._scale).tolist())

    def finish(self) -> None:
        """Take the end of the stream: the last frames become ready."""
        self._online.input_finished()

    def frames(self, start: int, end: int) -> FloatArray:
        """Return frames, float32 `[end - start, num_mels]`, and drop those before them."""
        self._online.pop(start - self._first)
        self._first = start
        rows = [self._online.get_frame(index) for index in range(start, end)]
        return np.array(rows, np.float32).reshape(end - start, self._num_mels)

    def whole(self, waveform: FloatArray) -> FloatArray:
        """Return the frames of a stream that is one waveform, float32 `[frames, num_mels]`."""
        self.accept(waveform)
        self.finish()
        return self.frames(0, self.ready)


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
        normalised: FloatArray = (log - log.mean(axis=0)) / (log.std(axis=0) + _LEAST_DEVIATION)
        return normalised.astype(np.float32, copy=False)

    def _stream(self, *, has_log: bool) -> KaldiFbank:
        options = icefall_options(self.num_mels)
        options.frame_opts.remove_dc_offset = False
        options.frame_opts.window_type = self.window
        options.mel_opts.low_freq, options.mel_opts.high_freq = 0.0, self.highest_hz
        options.mel_opts.is_librosa = True
        options.use_log_fbank = has_log
        return KaldiFbank(self.num_mels, options)
