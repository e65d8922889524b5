"""The `kokoro_gradient` component: how a voice must change to sound more like a recording.

A stretch of a sentence goes through the vocoder, the energies of its bands and the network that
tells speakers apart. The gradient of the similarity comes back along the same way, so a fit takes
some hundred stretches, where a search by similarities alone takes thousands.
"""

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from conch.component import SAMPLE_RATE, FloatArray, Outputs, Row, RowByRow
from conch.component.parameters import DeviceConfig, be_nice
from conch.component.torch_graph import TorchGraph
from conch.families.kokoro import CONTEXT, FRAME_SAMPLES
from conch.families.kokoro import SAMPLE_RATE as OWN_RATE
from conch.families.kokoro.components import (
    CHANNELS,
    KOKORO,
    STATISTIC,
    STYLE,
    TIMBRE_SIZE,
    mixed,
    statistics,
    unpacked,
)
from conch.families.speakers.components import BANDS, FRAME_LENGTH, FRAME_SHIFT
from conch.families.speakers.weights import EMBEDDING, speakers_folder
from conch.families.speech.graphs import VOCODER
from conch.wire.errors import InvalidRequestError

LEAST_FRAMES, MOST_FRAMES = 2 * CONTEXT + 12, 400
"""Frames of a stretch, with those around it."""
COLOURS = (0.7, 0.5, 0.4, 0.3)
"""Standard deviations of the waves over the bands by which microphones differ, the longest first,
in natural logarithms of power."""
NOISE = (-6.0, -2.0)
"""Range of the noise below the mean of the features."""
SILENCE = float(np.finfo(np.float32).eps)
"""Least energy of a band, as Kaldi has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientConfig(DeviceConfig):
    speakers: str = ""
    nice: int = 19  # all else goes first


class KokoroGradient(RowByRow):
    def __init__(self, config: GradientConfig) -> None:
        be_nice(config.nice)
        self._threads = config.threads
        torch.set_num_threads(self._threads)
        self._vocoder = TorchGraph(KOKORO.graphs(config.model) / VOCODER)
        self._embedding = TorchGraph(speakers_folder(config.speakers) / EMBEDDING)
        self._bank = FilterBank()

    def answer(self, row: Row, /) -> Outputs:
        began = time.process_time()
        latents = _latents_of(row)
        target = torch.tensor(row.inputs["target"].ravel())
        timbre = torch.tensor(row.inputs["timbre"].reshape(1, -1)).requires_grad_()
        if timbre.shape[1] != TIMBRE_SIZE:
            raise InvalidRequestError(
                f"input 'timbre' takes {TIMBRE_SIZE} numbers; sent: {timbre.shape[1]}"
            )
        waveform = self._waveform(latents, timbre, row.parameters["voice"])
        rng = np.random.default_rng(row.parameters.get("seed", 0))
        features = augmented(self._bank(waveform), rng)
        (embedding,) = self._embedding({"features": (features - features.mean(dim=0))[None]})
        if embedding.shape[1:] != target.shape:
            raise InvalidRequestError(
                f"input 'target' takes {embedding.shape[1]} numbers; sent: {len(target)}"
            )
        similarity = functional.cosine_similarity(embedding[0], target, dim=0)
        (gradient,) = torch.autograd.grad(similarity, timbre)
        return {
            "similarity": similarity.detach().numpy().reshape(1),
            "gradient": gradient.numpy().ravel(),
            "seconds": np.array([time.process_time() - began], np.float32) / self._threads,
        }

    def _waveform(self, latents: FloatArray, timbre: Tensor, voice: str) -> Tensor:
        values = {name: torch.tensor(value) for name, value in unpacked(latents).items()}
        values[STYLE] = timbre
        values[STATISTIC] = torch.tensor(mixed(statistics(), voice)[np.newaxis, :, np.newaxis])
        (waveform,) = self._vocoder(values)
        around = CONTEXT * FRAME_SAMPLES
        return waveform.ravel()[around:-around]


def _latents_of(row: Row) -> FloatArray:
    latents = row.inputs["latents"]
    if latents.ndim != 2 or latents.shape[1] != CHANNELS:
        raise InvalidRequestError(
            f"input 'latents' takes frames of {CHANNELS} values; sent: {list(latents.shape)}"
        )
    if not LEAST_FRAMES <= len(latents) <= MOST_FRAMES:
        raise InvalidRequestError(
            f"input 'latents' takes {LEAST_FRAMES} to {MOST_FRAMES} frames; sent: {len(latents)}"
        )
    return latents


def augmented(features: Tensor, rng: np.random.Generator) -> Tensor:
    """Return features `[frames, bands]` as another microphone in another room has them.

    So a voice does not follow the quirks of the network, or the sound of one recording.
    """
    place = torch.linspace(0, np.pi, features.shape[1])
    for number, depth in enumerate(COLOURS, 1):
        features = features + depth * float(rng.standard_normal()) * torch.cos(number * place)
    noise = features.mean() + rng.uniform(*NOISE)
    return torch.logaddexp(features, noise.expand(features.shape))


class FilterBank:
    """Log-mel energies of 24 kHz as `conch.families.speakers.components.fbank` has them of 16 kHz.

    The lengths of frames are the same in seconds, and so are the frequencies of the spectrum. So
    nothing is resampled; what the pre-emphasis does to a spectrum at 16 kHz is a factor.
    """

    def __init__(self) -> None:
        ratio = OWN_RATE / SAMPLE_RATE
        self._length, self._shift = round(FRAME_LENGTH * ratio), round(FRAME_SHIFT * ratio)
        points = round(512 * ratio)
        place = np.arange(self._length) / (self._length - 1)
        povey = (0.5 - 0.5 * np.cos(2 * np.pi * place)) ** 0.85
        self._window = torch.tensor(32_768 * povey / ratio, dtype=torch.float32)
        frequencies = np.arange(points // 2 + 1) * OWN_RATE / points
        emphasis = np.abs(1 - 0.97 * np.exp(-2j * np.pi * frequencies / SAMPLE_RATE)) ** 2
        emphasis[frequencies > SAMPLE_RATE / 2] = 0
        self._factors = torch.tensor(_mel(frequencies) * emphasis, dtype=torch.float32).T
        self._points = points

    def __call__(self, waveform: Tensor) -> Tensor:
        """Return energies `[frames, 80]` of samples `[samples]`, at least 600."""
        frames = waveform.unfold(0, self._length, self._shift)
        frames = (frames - frames.mean(dim=1, keepdim=True)) * self._window
        spectrum = torch.fft.rfft(frames, self._points)
        # The gradient of an absolute value of 0 is not finite.
        power = spectrum.real**2 + spectrum.imag**2
        energies: Tensor = (power @ self._factors).clamp_min(SILENCE)
        return energies.log()


def _mel(frequencies: FloatArray) -> FloatArray:
    """Return the weights of Kaldi's triangles from 20 to 8000 Hz, `[80, frequencies]`."""

    def mel(hertz: FloatArray | float) -> FloatArray:
        return np.asarray(1127 * np.log(1 + np.asarray(hertz) / 700))

    edges = np.linspace(mel(20.0), mel(SAMPLE_RATE / 2), BANDS + 2)[:, np.newaxis]
    left, centre, right, at = edges[:-2], edges[1:-1], edges[2:], mel(frequencies)
    rises, falls = (at - left) / (centre - left), (right - at) / (right - centre)
    return np.asarray(np.clip(np.minimum(rises, falls), 0, None))
