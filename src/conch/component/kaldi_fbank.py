"""Log-mel filter banks by Kaldi's own code, for audio that arrives in pieces."""

from typing import Any

import kaldi_native_fbank as knf
import numpy as np

from conch.component import SAMPLE_RATE, FloatArray

FRAME_S = 0.01
"""Seconds from one frame to the next."""


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


def nemo_options(num_mels: int, *, is_other: bool) -> Any:
    """Return NeMo's settings as sherpa-onnx has them: filters of Slaney from 0 Hz on.

    `is_other` is for a povey window and filters up to 7600 Hz, in place of hann and 8000 Hz.
    """
    options = icefall_options(num_mels)
    options.frame_opts.remove_dc_offset = False
    options.frame_opts.window_type = "povey" if is_other else "hann"
    options.mel_opts.low_freq, options.mel_opts.high_freq = 0.0, 7600.0 if is_other else 8000.0
    options.mel_opts.is_librosa = True
    return options


class KaldiFbank:
    """The frames of one stream. They do not depend on the pieces in which it arrives."""

    def __init__(self, num_mels: int, options: Any = None, scale: float = 1.0) -> None:
        """`options` are icefall's by default; samples are multiplied by `scale`."""
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
