"""Log-mel filter banks by Kaldi's own code, for audio that arrives in pieces."""

from typing import Any

import kaldi_native_fbank as knf
import numpy as np

from conch.component import SAMPLE_RATE, FloatArray

FRAME_S = 0.01
"""Seconds from one frame to the next."""
_WINDOW, _SHIFT, _TRANSFORM = 400, 160, 512
"""Samples of a window, from one to the next, and of its transform."""
_PREEMPHASIS = 0.97


def icefall_options(num_mels: int, *, is_mfcc: bool = False) -> Any:
    """Return the settings of icefall: windows of 25 ms every 10 ms, filters from 20 to 7600 Hz, no
    dither. Windows at the edges are mirrored.
    """
    options = knf.MfccOptions() if is_mfcc else knf.FbankOptions()
    if is_mfcc:
        options.num_ceps, options.use_energy = num_mels, False
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


def narrow_fbank(waveform: FloatArray, num_mels: int, low: float, high: float) -> FloatArray:
    """Return log-mel features, float32 `[frames, num_mels]`, of hanning windows inside the audio.

    Filters may be narrower than a bin of the transform, which Kaldi's code refuses: those between
    two bins hear nothing.
    """
    frames = np.lib.stride_tricks.sliding_window_view(waveform, _WINDOW)[::_SHIFT]
    before = np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)
    windows = (frames - _PREEMPHASIS * before) * np.hanning(_WINDOW)
    power = np.square(np.abs(np.fft.rfft(windows, _TRANSFORM)))
    edges, bins = (
        1127 * np.log1p(hertz / 700)
        for hertz in (np.array([low, high]), np.fft.rfftfreq(_TRANSFORM, 1 / SAMPLE_RATE))
    )
    width = (edges[1] - edges[0]) / (num_mels + 1)
    centres = edges[0] + width * np.arange(1, num_mels + 1)
    filters = np.maximum(0, 1 - np.abs(bins[:, None] - centres) / width)
    heard = np.maximum(power @ filters, np.finfo(np.float32).eps)
    return np.asarray(np.log(heard), np.float32)


class KaldiFbank:
    """The frames of one stream. They do not depend on the pieces in which it arrives."""

    def __init__(self, num_mels: int, options: Any = None, scale: float = 1.0) -> None:
        """`options` are icefall's by default; samples are multiplied by `scale`."""
        options = options or icefall_options(num_mels)
        is_mfcc = isinstance(options, knf.MfccOptions)
        self._online = (knf.OnlineMfcc if is_mfcc else knf.OnlineFbank)(options)
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
