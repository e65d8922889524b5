"""Kokoro's network, where it is cut, and the styles of its voices."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from conch.component.arrays import FloatArray
from conch.component.parameters import existing
from conch.families.kokoro.declaration import MODEL, NAMES, NETWORK, PACKAGE, STYLES
from conch.families.kokoro.latents import LATENTS
from conch.families.speech.graphs import Network, VoiceConfig, replace_nodes
from conch.packaged import packaged
from conch.wire.voices import shares_of

DURATIONS, AUDIO = "/encoder/Clip_output_0", "audio"
"""Frames of each token `[1, tokens]`, and the waveform `[samples]`."""
STYLE_ROWS, STYLE_SIZE = 510, 256
"""Styles of a voice, by the number of sounds in a sentence."""
SOUND = slice(STYLE_SIZE // 2)
"""The part of a style that the vocoder gets; the rest is about how a sentence is spoken."""
SOUND_ROW = 100
"""The style whose sound is that of all sentences: statistics depend on it."""
STATISTICS = Path(__file__).with_name("statistics.npz")
"""What `lab.training.kokoro.statistics` has found: `values` of each voice, `names` of the nodes
that compute those of a call, and the `sizes` of theirs."""
STATISTIC = "statistics"
"""Input of the vocoder `[1, values, 1]`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KokoroConfig(VoiceConfig):
    intra_threads: int = 0
    """CPU threads of one call: a listener waits for it."""


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
    found: FloatArray = np.tensordot(np.array([*shares.values()], np.float32), chosen, axes=1)
    return found


@cache
def statistics() -> FloatArray:
    """Return the mean or variance of each channel before each normalisation, `[voices, values]`."""
    with np.load(STATISTICS) as found:
        return np.asarray(found["values"], np.float32)


def freeze(graph: Any) -> None:
    """Let normalisations take `STATISTIC`, in place: a frame's sound depends on near ones alone."""
    from onnx import TensorProto, helper, numpy_helper

    with np.load(STATISTICS) as found:
        names, sizes = found["names"].tolist(), found["sizes"].astype(np.int64)
    kept = [node for node in graph.node if node.output[0] not in names]
    shape = [1, int(sizes.sum()), 1]
    graph.input.append(helper.make_tensor_value_info(STATISTIC, TensorProto.FLOAT, shape))
    graph.initializer.append(numpy_helper.from_array(sizes, "sizes"))
    split = helper.make_node("Split", [STATISTIC, "sizes"], names, axis=1)
    replace_nodes(graph, [split, *kept])


KOKORO = Network(
    package=PACKAGE,
    folder="",
    file=NETWORK,
    sha256=MODEL.sha256[NETWORK],
    acoustic=(("tokens", "style", "speed"), (*LATENTS, DURATIONS)),
    vocoder=(LATENTS, (AUDIO,)),
    edit=freeze,
    revision=1,
)
