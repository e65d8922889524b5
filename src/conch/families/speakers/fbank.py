"""Log-mel filter banks as the embedding was trained with: Kaldi's, up to 8 kHz."""

from conch.component.arrays import FloatArray
from conch.component.kaldi_fbank import KaldiFbank, icefall_options

BANDS = 80
FRAME_SHIFT, FRAME_LENGTH = 160, 400
"""Samples: 10 and 25 ms."""
_FULL_SCALE = 32_768
"""Kaldi's samples are those of 16-bit files."""


def fbank(waveform: FloatArray) -> FloatArray:
    """Return log-mel energies, float32 `[frames, 80]`, at 16 kHz; none of less than 400 samples."""
    options = icefall_options(BANDS)
    options.frame_opts.snip_edges = True
    options.mel_opts.high_freq = 0.0
    return KaldiFbank(BANDS, options, _FULL_SCALE).whole(waveform)
