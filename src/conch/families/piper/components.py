"""The `piper_acoustic` component, once for a sentence, and `piper_vocoder`, for any stretch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime import InferenceSession

from conch.component import Array, FloatArray, Outputs, Row, RowByRow
from conch.families.hibari.front_end import symbols
from conch.families.piper import BEGIN, BETWEEN, END, MAX_TOKENS, PACKAGE, SOUNDS
from conch.families.piper.folder import SPEAKER, PiperVoice, read_cut, read_voices
from conch.families.speech.graphs import (
    ACOUSTIC,
    VOCODER,
    Stretch,
    VoiceConfig,
    VoiceNetwork,
    replace_nodes,
    sounds_of,
)
from conch.packaged import missing
from conch.wire.errors import ConfigError, OptionError

NOISE, NOISE_SIZE = "noise", 1 << 19
"""Input of the first graph; what needs more of it gets it from the begin again."""
SILENCE = "\0"
"""Sound of a token that has none."""


@lru_cache(8)
def noise(seed: int) -> FloatArray:
    """Return the noise from which the first graph draws, `[NOISE_SIZE]`."""
    return np.random.default_rng(seed).standard_normal(NOISE_SIZE, dtype=np.float32)


class Voices:
    """One of the graphs of each voice."""

    def __init__(self, config: VoiceConfig, graph: str) -> None:
        if not config.model:
            raise ConfigError(missing(PACKAGE))
        self._opened = {
            voice.name: (voice, NETWORK.open(replace(config, model=str(voice.path)), graph))
            for voice in read_voices(Path(config.model))
        }

    def of(self, row: Row) -> tuple[PiperVoice, InferenceSession, Mapping[str, Array]]:
        """Return the voice of a row, its graph, and the graph's input for the speaker."""
        wanted = row.parameters["voice"]
        name, _, speaker = (wanted, "", "") if wanted in self._opened else wanted.rpartition("#")
        if name not in self._opened:
            raise _wrong(", ".join(self._opened), wanted)
        voice, session = self._opened[name]
        if speaker and speaker not in voice.speakers:
            names = ", ".join(voice.speakers)
            raise _wrong(f"{name}#SPEAKER with one of {names:.400}" if names else name, wanted)
        number = np.array([voice.speakers.get(speaker, 0)], np.int64)
        takes_speaker = any(item.name == SPEAKER for item in session.get_inputs())
        return voice, session, {SPEAKER: number} if takes_speaker else {}


def _wrong(takes: str, sent: str) -> OptionError:
    return OptionError(f"option 'voice' takes {takes}; sent: {sent!r:.100}")


class _PiperNetwork(VoiceNetwork):
    """A network whose cut is found when its graphs are made, which takes 100 MB."""

    def write(self, source: Path, folder: Path) -> None:
        cut = read_cut(source)
        first = (cut.inputs, (cut.latents, cut.durations))
        second = ((cut.latents, *cut.others), (cut.audio,))
        VoiceNetwork.write(replace(self, acoustic=first, vocoder=second), source, folder)


def feed_noise(graph: Any) -> None:
    """Let all that a graph draws come from its input NOISE, in place: a seed repeats it."""
    from onnx import TensorProto, helper, numpy_helper

    numbers = {"noise_first": 0, "noise_step": 1, "noise_size": NOISE_SIZE}
    graph.initializer.extend(
        numpy_helper.from_array(np.array(value), name) for name, value in numbers.items()
    )
    graph.input.append(helper.make_tensor_value_info(NOISE, TensorProto.FLOAT, [NOISE_SIZE]))
    nodes = []
    for node in graph.node:
        if node.op_type != "RandomNormalLike":
            nodes.append(node)
            continue
        (like,), (drawn,) = node.input, node.output
        steps = (
            ("Shape", [like], "shape"),
            ("Size", [like], "count"),
            ("Range", ["noise_first", f"{drawn}_count", "noise_step"], "places"),
            ("Mod", [f"{drawn}_places", "noise_size"], "kept"),
            ("Gather", [NOISE, f"{drawn}_kept"], "flat"),
        )
        nodes += (
            helper.make_node(op_type, names, [f"{drawn}_{to}"]) for op_type, names, to in steps
        )
        nodes.append(helper.make_node("Reshape", [f"{drawn}_flat", f"{drawn}_shape"], [drawn]))
    replace_nodes(graph, nodes)


def tell_channels(graph: Any) -> None:
    """Set the shape of a decoder's first input, the latents, in place."""
    from onnx import TensorProto, helper

    name, sizes = graph.input[0].name, {item.name: item.dims for item in graph.initializer}
    (first,) = (node for node in graph.node if name in node.input)
    shape = [1, sizes[first.input[1]][1], "frames"]
    graph.input[0].CopyFrom(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))


NETWORK = _PiperNetwork(
    package=PACKAGE,
    folder="",
    file="",
    sha256="",
    acoustic=((), ()),
    vocoder=((), ()),
    edit_first=feed_noise,
    edit=tell_channels,
    revision=2,
)
"""Network of any voice, whose file the parameter `model` names."""


class PiperAcoustic(RowByRow):
    def __init__(self, config: VoiceConfig) -> None:
        self._voices, self._symbols = Voices(config, ACOUSTIC), symbols()

    def answer(self, row: Row, /) -> Outputs:
        tokens, speed = sounds_of(row, MAX_TOKENS)
        voice, session, speaker = self._voices.of(row)
        sounds = "".join(self._symbols.get(token, SILENCE) for token in tokens[0].tolist())
        units, owners = units_of(sounds, voice.units)
        drawn, length, drawn_lengths = voice.scales
        feeds = {
            "input": units[np.newaxis],
            "input_lengths": np.array([len(units)], np.int64),
            "scales": np.array([drawn, length / speed[0], drawn_lengths], np.float32),
            NOISE: noise(int(row.parameters.get("seed", 0))),
        }
        latents, frames = session.run(None, {**feeds, **speaker})
        durations = np.bincount(owners, frames.ravel(), minlength=len(sounds))
        return {
            "latents": np.ascontiguousarray(latents[0].T),
            "durations": np.rint(durations).astype(np.int32),
        }


class PiperVocoder(RowByRow):
    """Makes the waveform of frames, which equals that part of the whole."""

    def __init__(self, config: VoiceConfig) -> None:
        self._voices = Voices(config, VOCODER)

    def answer(self, row: Row, /) -> Outputs:
        _, session, speaker = self._voices.of(row)
        taken = session.get_inputs()[0]
        part = Stretch.of(row, taken.shape[1])
        latents = np.ascontiguousarray(part.latents.T)[np.newaxis]
        (samples,) = session.run(None, {taken.name: latents, **speaker})
        return {"waveform": part.spoken(samples.ravel(), samples.size // len(part.latents))}


def units_of(sounds: str, known: Mapping[str, Sequence[int]]) -> tuple[Array, Array]:
    """Return the units of a voice for sounds of the front end, and the place of each one's sound.

    There is a sound for each token; `known` are the units of the voice, by what espeak writes.
    """
    units = [*known[BEGIN], *known[BETWEEN]]
    owners, index = [0] * len(units), 0
    while index < len(sounds):
        pair = sounds[index : index + 2]
        written = pair if pair in SOUNDS else sounds[index]
        for unit in SOUNDS.get(written, written):
            added = [*known[unit], *known[BETWEEN]] if unit in known else []
            units += added
            owners += [index] * len(added)
        index += len(written)
    units += known[END]
    owners += [len(sounds) - 1] * len(known[END])
    return np.array(units, np.int64), np.array(owners, np.int64)
