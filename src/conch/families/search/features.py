"""What the encoders of exports take, from whole waveforms and from live audio."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from conch.catalogue.exports import AcousticEncoder
from conch.component.arrays import FloatArray
from conch.component.kaldi_fbank import KaldiFbank, NemoMel, default_options

_LEAST_VARIANCE = 1e-5


class Extractor(Protocol):
    """Makes features of audio in [-1, 1] at 16 kHz."""

    def whole(self, waveform: FloatArray, /) -> FloatArray:
        """Return the frames of a waveform, float32 `[samples]`: `[frames, size]`."""
        ...

    def stream(self) -> KaldiFbank:
        """Return the frames of a new live stream."""
        ...


@dataclass(frozen=True, slots=True)
class Kaldi:
    num_mels: int
    scale: float
    is_default: bool = False
    """Whether the settings are Kaldi's own, not those of icefall."""

    def stream(self) -> KaldiFbank:
        options = default_options(self.num_mels) if self.is_default else None
        return KaldiFbank(self.num_mels, options, self.scale)

    def whole(self, waveform: FloatArray, /) -> FloatArray:
        return self.stream().whole(waveform)


@dataclass(frozen=True, slots=True)
class Samples:
    """The waveform itself, as wav2vec2 takes it."""

    is_normalised: bool
    """Whether its mean is made 0 and its variance 1."""

    def whole(self, waveform: FloatArray, /) -> FloatArray:
        if not self.is_normalised:
            return waveform[:, None]
        centred = waveform - waveform.mean()
        scaled = centred / np.sqrt(centred.var() + _LEAST_VARIANCE)
        found: FloatArray = scaled.astype(np.float32, copy=False)[:, None]
        return found

    def stream(self) -> KaldiFbank:
        """Never called: no such encoder hears live audio."""
        raise NotImplementedError


def extractor_of(encoder: AcousticEncoder) -> Extractor:
    match encoder.features:
        case "kaldi":
            return Kaldi(encoder.num_mels, 1.0)
        case "kaldi of 16 bits":
            return Kaldi(encoder.num_mels, 32_768.0)
        case "kaldi by default":
            return Kaldi(encoder.num_mels, 32_768.0, is_default=True)
        case "nemo":
            # sherpa-onnx has another window and last filter for recordings of transducers.
            is_other = encoder.frames_last and not encoder.is_live
            return NemoMel(
                num_mels=encoder.num_mels,
                window="povey" if is_other else "hann",
                highest_hz=7600.0 if is_other else 8000.0,
                is_normalised=encoder.is_normalised,
            )
        case "waveform":
            return Samples(encoder.is_normalised)
