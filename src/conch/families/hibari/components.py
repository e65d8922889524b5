"""The `acoustic` component, once for a sentence, and the `vocoder`, for any stretch of it.

The vocoder makes pulses at the pitch, shaped noise, and the rest: a frame's spectrum is
`exp(lh) e^(i pi tanh(th)) STFT(pulses) + exp(ln) noise + exp(lr) e^(i phi)`, with windows of 1200
samples every 300. Nothing looks further than three frames, because each frame comes with the phase
of the pulses, and with noise by the frame's number.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import scipy.fft

from conch.component import Array, DoubleArray, FloatArray, Outputs, Row, RowByRow
from conch.families.hibari import FRAME_SAMPLES, MAX_TOKENS, PACKAGE, SAMPLE_RATE
from conch.families.speech.graphs import (
    ACOUSTIC,
    VOCODER,
    Stretch,
    VoiceConfig,
    VoiceNetwork,
    replace_nodes,
    sounds_of,
)

N_FFT = 1200
BINS = N_FFT // 2 + 1
HOPS = N_FFT // FRAME_SAMPLES
LOWEST_HZ, HIGHEST_HZ = 40.0, 11_000.0
"""Pitch below which a frame is unvoiced, and the highest harmonic."""
REACH = 3
"""Frames around a spectrum that the pulses of its window need."""
NOISE_FRAMES = 16
"""Frames whose noise is drawn at once."""
NOISE_BLOCKS = 128
"""Blocks of noise after which the first comes again, 26 s later: drawing it anew would take a
twelfth of the time. They take 10 MB."""
_MOST = 7.0
"""Largest log magnitude."""
_WINDOW = np.hanning(N_FFT + 1)[:-1].astype(np.float32)  # periodic
_WEIGHTS = ((np.arange(FRAME_SAMPLES) + 0.5) / FRAME_SAMPLES - 0.5).astype(np.float32)
"""Place of each sample of a frame between its own pitch, 0, and those of its neighbours, 1."""
LATENTS, PITCH, DURATIONS = "/Concat_43_output_0", "f0", "/Clip_output_0"
"""Values of the network between the two, and what else is read of the first."""
SPECTRUM = "/head/Add_output_0"
"""Output of the vocoder [1, frames, 5 x 601], before it is transposed and split."""
FRAMES_OF_UNIT = 2
"""Frames of a unit of duration."""
CHANNELS = 132


def frequencies(pitch: FloatArray) -> FloatArray:
    """Return the pitch in Hz at each sample [frames, 300], interpolated from that of [frames]."""
    padded = np.pad(pitch, 1, mode="edge")
    before, own, after = padded[:-2, None], padded[1:-1, None], padded[2:, None]
    return own + np.where(_WEIGHTS < 0, (own - before), (after - own)) * _WEIGHTS


def starting_phases(pitch: FloatArray) -> FloatArray:
    """Return the phase of the pulses at the begin of each frame, in turns from 0 to 1."""
    turns = np.maximum(frequencies(pitch), LOWEST_HZ).sum(axis=1, dtype=np.float64) / SAMPLE_RATE
    phases: DoubleArray = np.concatenate([[0.0], np.cumsum(turns)[:-1]]) % 1.0
    return phases.astype(np.float32)


def pulses(pitch: FloatArray, phases: FloatArray) -> FloatArray:
    """Return the sum of all harmonics as cosines [samples]: 0 where the voice has no pitch."""
    hertz = frequencies(pitch)
    is_voiced = hertz > LOWEST_HZ
    hertz = np.maximum(hertz, LOWEST_HZ)
    turns = phases[:, None] + np.cumsum(hertz / np.float32(SAMPLE_RATE), axis=1)
    angle = (2 * np.pi * (turns - np.floor(turns))).astype(np.float32)
    count = np.floor(np.float32(HIGHEST_HZ) / hertz) + np.float32(0.5)
    # sum of cos(h t) for h up to H is sin((H + 1/2) t) / (2 sin(t / 2)) - 1/2
    below = 2 * np.sin(angle / 2)
    is_small = np.abs(below) <= 2e-3
    summed = np.where(is_small, count, np.sin(count * angle) / np.where(is_small, 1, below)) - 0.5
    return np.asarray(np.where(is_voiced, summed, 0).astype(np.float32).ravel())


def noise(first: int, frames: int, seed: int) -> Array:
    """Return noise [frames, 601], complex, of unit variance in both parts, by frame and seed."""
    begin, end = first // NOISE_FRAMES, -(-(first + frames) // NOISE_FRAMES)
    blocks = [_block(seed, number % NOISE_BLOCKS) for number in range(begin, end)]
    start = first - begin * NOISE_FRAMES
    return np.asarray(np.concatenate(blocks)[start : start + frames].view(np.complex64))


@lru_cache(NOISE_BLOCKS)
def _block(seed: int, number: int) -> FloatArray:
    generator = np.random.default_rng([seed, number])
    return generator.standard_normal((NOISE_FRAMES, 2 * BINS), dtype=np.float32)


def waveform(
    spectrum: FloatArray, pitch: FloatArray, phases: FloatArray, noises: Array, first: int
) -> FloatArray:
    """Return the samples of frames, 300 of each.

    The first and the last frames are right only at the ends of a sentence: elsewhere one is lost in
    front and two are behind.

    `spectrum` is [frames, 5 x 601] of the network, and `noises` are of the same frames. `pitch`, in
    Hz, and `phases` have up to REACH more on each side, `first` of them in front.
    """
    harmonics, turn, hiss, rest, angle = spectrum.reshape(len(spectrum), 5, BINS).swapaxes(0, 1)
    padded = np.pad(pulses(pitch, phases), N_FFT // 2, mode="reflect")
    views = np.lib.stride_tricks.sliding_window_view(padded, N_FFT)[::FRAME_SAMPLES]
    spectra = scipy.fft.rfft(views[first : first + len(spectrum)] * (_WINDOW * 4 / N_FFT), axis=1)
    spectra *= _polar(harmonics, np.tanh(turn) * np.float32(np.pi))
    spectra += noises * _magnitude(hiss)
    spectra += _polar(rest, angle)
    frames = scipy.fft.irfft(spectra, n=N_FFT, axis=1) * _WINDOW
    return _overlapped(frames.reshape(-1, HOPS, FRAME_SAMPLES))


def _overlapped(frames: FloatArray) -> FloatArray:
    """Return the sum of windows, divided by that of their squares, without half a window's ends."""
    squares = (_WINDOW**2).reshape(HOPS, FRAME_SAMPLES)
    sums = np.zeros((2, len(frames) + HOPS - 1, FRAME_SAMPLES), np.float32)
    for hop in range(HOPS):
        sums[0, hop : hop + len(frames)] += frames[:, hop]
        sums[1, hop : hop + len(frames)] += squares[hop]
    half = HOPS // 2
    samples, weights = sums[:, half : half + len(frames)]
    return np.asarray((samples / np.maximum(weights, 1e-11)).ravel())


def _magnitude(logarithm: FloatArray) -> FloatArray:
    return np.asarray(np.exp(np.minimum(logarithm, _MOST)))


def _polar(logarithm: FloatArray, angle: FloatArray) -> Array:
    values = np.empty(angle.shape, np.complex64)
    np.cos(angle, out=values.real)
    np.sin(angle, out=values.imag)
    values *= _magnitude(logarithm)
    return values


def dequantize(graph: Any) -> None:
    """Replace int8 products by floats, in place: ranges of int8 span all frames of a call."""
    from onnx import helper, numpy_helper

    made_by = {output: node for node in graph.node for output in node.output}
    users = {name: node for node in graph.node for name in node.input}
    values = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    kept = []
    for node in graph.node:
        if node.op_type != "MatMulInteger":
            kept.append(node)
            continue
        inputs, weight, _, zero = node.input
        scale = values[weight.removesuffix("_quantized") + "_scale"]
        name = f"{weight}_float"
        floats = (values[weight].astype(np.float32) - values[zero].astype(np.float32)) * scale
        graph.initializer.append(numpy_helper.from_array(floats.astype(np.float32), name))
        cast = users[node.output[0]]
        scaled = users[cast.output[0]]
        (source,) = made_by[inputs].input
        kept.append(helper.make_node("MatMul", [source, name], [scaled.output[0]]))
        scaled.output[0] += "_of_int8"
    replace_nodes(graph, kept)


HIBARI = VoiceNetwork(
    package=PACKAGE,
    folder="assets",
    file="hibari.onnx",
    sha256="5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8",
    acoustic=(("ids", "speed"), (LATENTS, PITCH, DURATIONS)),
    vocoder=((LATENTS,), (SPECTRUM,)),
    edit=dequantize,
    revision=1,
)


class HibariAcoustic(RowByRow):
    def __init__(self, config: VoiceConfig) -> None:
        self._session = HIBARI.open(config, ACOUSTIC)

    def answer(self, row: Row, /) -> Outputs:
        """Return `latents` and `durations` of a row with `tokens` and `speed`.

        Latents [frames, 132] are what the network's second half takes, the pitch in Hz, and the
        phase at which the frame begins, in turns.
        """
        tokens, speed = sounds_of(row, MAX_TOKENS)
        latents, pitch, units = self._session.run(
            [LATENTS, PITCH, DURATIONS], {"ids": tokens, "speed": speed}
        )
        columns = (latents[0], pitch, starting_phases(pitch[0])[np.newaxis])
        return {
            "latents": np.ascontiguousarray(np.concatenate(columns).T),
            "durations": np.rint(units * FRAMES_OF_UNIT).astype(np.int32),
        }


class HibariVocoder(RowByRow):
    """Makes the waveform of frames, which equals that part of the whole."""

    def __init__(self, config: VoiceConfig) -> None:
        self._session = HIBARI.open(config, VOCODER)

    def answer(self, row: Row, /) -> Outputs:
        part = Stretch.of(row, CHANNELS)
        latents, frames = part.latents, len(part.latents)
        inputs = np.ascontiguousarray(latents[:, :-2].T)[np.newaxis]
        (spectrum,) = self._session.run([SPECTRUM], {LATENTS: inputs})
        start, end = max(part.before - 1, 0), min(frames - part.after + 2, frames)
        around = slice(max(start - REACH, 0), end + REACH)
        samples = waveform(
            spectrum[0, start:end],
            latents[around, -2],
            latents[around, -1],
            noise(part.first + start, end - start, int(row.parameters.get("seed", 0))),
            start - around.start,
        )
        samples = samples[(part.before - start) * FRAME_SAMPLES :]
        return {"waveform": samples[: (frames - part.before - part.after) * FRAME_SAMPLES]}
