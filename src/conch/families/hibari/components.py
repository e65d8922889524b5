"""The `acoustic` component, once for a sentence, and the `vocoder`, for any stretch of it."""

from typing import Any

import numpy as np

from conch.component import Outputs, Row, RowByRow
from conch.families.hibari.declaration import FRAME_SAMPLES, MAX_TOKENS, PACKAGE
from conch.families.hibari.signal import REACH, noise, starting_phases, waveform
from conch.families.speech.graphs import (
    ACOUSTIC,
    VOCODER,
    Network,
    Stretch,
    VoiceConfig,
    replace_nodes,
    sounds_of,
)

LATENTS, PITCH, DURATIONS = "/Concat_43_output_0", "f0", "/Clip_output_0"
"""Values of the network between the two, and what else is read of the first."""
SPECTRUM = "/head/Add_output_0"
"""Output of the vocoder [1, frames, 5 x 601], before it is transposed and split."""
FRAMES_OF_UNIT = 2
"""Frames of a unit of duration."""
CHANNELS = 132


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


HIBARI = Network(
    package=PACKAGE,
    folder="assets",
    file="hibari.onnx",
    sha256="5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8",
    acoustic=(("ids", "speed"), (LATENTS, PITCH, DURATIONS)),
    vocoder=((LATENTS,), (SPECTRUM,)),
    edit=dequantize,
    revision=1,
)


class Acoustic(RowByRow):
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


class Vocoder(RowByRow):
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
