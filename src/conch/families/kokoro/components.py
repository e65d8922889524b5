"""The `kokoro_acoustic` component, once for a sentence, and `kokoro_vocoder`, for any stretch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from conch.component import FloatArray, Outputs, Row, RowByRow
from conch.component.parameters import existing
from conch.families.kokoro import (
    FRAME_SAMPLES,
    MAX_TOKENS,
    MODEL,
    NAMES,
    NETWORK,
    PACKAGE,
    STYLES,
)
from conch.families.speech.graphs import (
    ACOUSTIC,
    VOCODER,
    Stretch,
    VoiceConfig,
    VoiceNetwork,
    replace_nodes,
    sounds_of,
)
from conch.packaged import packaged
from conch.wire.errors import InvalidRequestError
from conch.wire.synthesis import shares_of

TEXT, PITCH, LOUDNESS = (
    "/encoder/MatMul_1_output_0",
    "/encoder/Reshape_output_0",
    "/encoder/Reshape_1_output_0",
)
"""Values of the network: what is said `[1, 512, frames]`; twice a frame the pitch in Hz and how
loud it is."""
SOURCE = "/decoder/decoder/generator/Concat_3_output_0"
"""The spectrum of the harmonics, magnitudes and phases `[1, 22, 120 frames + 1]`."""
STYLE = "/decoder/Slice_output_0"
"""The half of the style that is the timbre, `[1, 128]`."""
LATENTS = (TEXT, PITCH, LOUDNESS, SOURCE, STYLE)
SIZES = {TEXT: 512, PITCH: 2, LOUDNESS: 2, SOURCE: 22 * 121, STYLE: 128}
"""Values of a frame."""
CHANNELS = sum(SIZES.values())
STEP = 120
"""Columns of the spectrum in a frame; its row has one of the next frame, too."""
DURATIONS, AUDIO = "/encoder/Clip_output_0", "audio"
"""Frames of each token `[1, tokens]`, and the waveform `[samples]`."""
STYLE_ROWS, STYLE_SIZE = 510, 256
"""Styles of a voice, by the number of sounds in a sentence."""
TIMBRE_SIZE = STYLE_SIZE // 2
TIMBRE = slice(TIMBRE_SIZE)
"""The part of a style that the vocoder gets; the rest is about how a sentence is spoken."""
LOWEST_PITCH, HIGHEST_PITCH = 0.5, 2.0
TIMBRE_ROW = 100
"""The style whose timbre is that of all sentences: statistics depend on it."""
STATISTICS = Path(__file__).with_name("statistics.npz")
"""Output of `lab.training.kokoro.statistics`: `values` of each voice, `names` of the nodes that
compute them in a call, and their `sizes`."""
STATISTIC = "statistics"
"""Input of the vocoder `[1, values, 1]`."""


def packed(values: Sequence[FloatArray]) -> FloatArray:
    """Return the values of a sentence, in the order of `LATENTS`, as `[frames, CHANNELS]`."""
    text, pitch, loudness, source, style = (item[0] for item in values)
    frames = text.shape[1]
    windows = np.lib.stride_tricks.sliding_window_view(source, STEP + 1, axis=1)[:, ::STEP]
    return np.concatenate(
        [
            text.T,
            pitch.reshape(frames, -1),
            loudness.reshape(frames, -1),
            windows.swapaxes(0, 1).reshape(frames, -1),
            np.broadcast_to(style, (frames, len(style))),
        ],
        axis=1,
        dtype=np.float32,
    )


def unpacked(latents: FloatArray) -> Mapping[str, FloatArray]:
    """Return the values of a stretch of frames, by name."""
    cuts = np.cumsum([*SIZES.values()])[:-1]
    text, pitch, loudness, windows, style = np.split(latents, cuts, axis=1)
    windows = windows.reshape(len(latents), -1, STEP + 1).swapaxes(0, 1)
    source = windows[:, :, :STEP].reshape(len(windows), -1)
    values = (
        text.T,
        pitch.ravel(),
        loudness.ravel(),
        np.concatenate([source, windows[:, -1, STEP:]], axis=1),
        style[0],
    )
    return {
        name: np.ascontiguousarray(value)[np.newaxis]
        for name, value in zip(LATENTS, values, strict=True)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class KokoroConfig(VoiceConfig):
    intra_threads: int = 0  # all of the share: a listener waits for each call


def opened_styles(model: str) -> FloatArray:
    """Return the mapped styles `[voices, rows, 256]` of a folder, by default the fetched one."""
    if model:
        path = existing(Path(model) / STYLES, PACKAGE.what)
    else:
        path = packaged(PACKAGE, "", {STYLES: MODEL.sha256[STYLES]}) / STYLES
    return np.memmap(path, np.float32, "r", shape=(len(NAMES), STYLE_ROWS, STYLE_SIZE))


def mixed(of_voices: FloatArray, voice: str) -> FloatArray:
    """Return `[…]` of a voice or a mix, from `[voices, …]`."""
    shares = shares_of(voice)
    chosen = of_voices[[NAMES.index(name) for name in shares]]
    return np.asarray(np.tensordot(np.array([*shares.values()], np.float32), chosen, axes=1))


@cache
def statistics() -> FloatArray:
    """Return the mean or variance of each channel before each normalisation, `[voices, values]`."""
    with np.load(STATISTICS) as arrays:
        return np.asarray(arrays["values"], np.float32)


def freeze(graph: Any) -> None:
    """Let normalisations take `STATISTIC`, in place: a frame's sound depends on near ones alone."""
    from onnx import TensorProto, helper, numpy_helper

    with np.load(STATISTICS) as arrays:
        names, sizes = arrays["names"].tolist(), arrays["sizes"].astype(np.int64)
    kept = [node for node in graph.node if node.output[0] not in names]
    shape = [1, int(sizes.sum()), 1]
    graph.input.append(helper.make_tensor_value_info(STATISTIC, TensorProto.FLOAT, shape))
    graph.initializer.append(numpy_helper.from_array(sizes, "sizes"))
    split = helper.make_node("Split", [STATISTIC, "sizes"], names, axis=1)
    replace_nodes(graph, [split, *kept])


def scale_pitch(graph: Any) -> None:
    """Multiply the pitch by the new input `pitch` [1], in place."""
    from onnx import TensorProto, helper

    own = f"{PITCH} of the voice"
    for node in graph.node:
        for index, name in enumerate(node.output):
            if name == PITCH:
                node.output[index] = own
    (index,) = (index for index, node in enumerate(graph.node) if own in node.output)
    graph.node.insert(index + 1, helper.make_node("Mul", [own, "pitch"], [PITCH]))
    graph.input.append(helper.make_tensor_value_info("pitch", TensorProto.FLOAT, [1]))


KOKORO = VoiceNetwork(
    package=PACKAGE,
    folder="",
    file=NETWORK,
    sha256=MODEL.sha256[NETWORK],
    acoustic=(("tokens", "style", "speed"), (*LATENTS, DURATIONS)),
    vocoder=(LATENTS, (AUDIO,)),
    edit_first=scale_pitch,
    edit=freeze,
    revision=2,
)


class KokoroAcoustic(RowByRow):
    def __init__(self, config: KokoroConfig) -> None:
        self._session = KOKORO.open(config, ACOUSTIC)
        self._styles = opened_styles(config.model)

    def answer(self, row: Row, /) -> Outputs:
        tokens, speed = sounds_of(row, MAX_TOKENS)
        style = self.style(row.parameters["voice"], tokens.shape[1])
        if "timbre" in row.inputs:
            style[0, TIMBRE] = _checked_timbre(row)
        pitch = row.inputs.get("pitch", np.ones(1)).ravel().astype(np.float32)
        if not LOWEST_PITCH <= pitch[0] <= HIGHEST_PITCH:
            raise InvalidRequestError(
                f"input 'pitch' takes {LOWEST_PITCH:g} to {HIGHEST_PITCH:g}; sent: {pitch[0]:g}"
            )
        *values, durations = self._session.run(
            [*LATENTS, DURATIONS],
            {"tokens": tokens, "style": style, "speed": speed, "pitch": pitch},
        )
        return {"latents": packed(values), "durations": durations.ravel().astype(np.int32)}

    def style(self, voice: str, tokens: int) -> FloatArray:
        """Return the style `[1, 256]` of a voice or a mix, for a sentence of so many tokens."""
        row = min(max(tokens - 2, 0), STYLE_ROWS - 1)  # a token at each end is silence
        style = mixed(self._styles[:, row], voice)
        style[TIMBRE] = mixed(self._styles[:, TIMBRE_ROW, TIMBRE], voice)
        return style[np.newaxis]


def _checked_timbre(row: Row) -> FloatArray:
    timbre = row.inputs["timbre"].ravel()
    if timbre.shape != (TIMBRE_SIZE,) or not np.isfinite(timbre).all():
        raise InvalidRequestError(f"input 'timbre' takes {TIMBRE_SIZE} finite numbers")
    return timbre


class KokoroVocoder(RowByRow):
    def __init__(self, config: KokoroConfig) -> None:
        self._session = KOKORO.open(config, VOCODER)

    def answer(self, row: Row, /) -> Outputs:
        part = Stretch.of(row, CHANNELS)
        of_voice = mixed(statistics(), row.parameters["voice"])[np.newaxis, :, np.newaxis]
        (samples,) = self._session.run([AUDIO], {**unpacked(part.latents), STATISTIC: of_voice})
        return {"waveform": part.spoken(samples.ravel(), FRAME_SAMPLES)}
