"""Folders of Piper's voices: NAME.onnx and NAME.onnx.json of each, checked without running them."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conch.catalogue.checks import ModelSummary, UnfitModelError, read_json, readable, size_of
from conch.families import voices
from conch.families.family import AddedVoice
from conch.families.piper import NAME, UNITS

INPUTS, SPEAKER = ("input", "input_lengths", "scales"), "sid"
"""Inputs of a voice; that of the speaker is there if it has several."""
SCALES = {"noise_scale": 0.667, "length_scale": 1.0, "noise_w": 0.8}
"""Settings of `PiperVoice.scales`, with Piper's defaults."""
LOCAL = {
    *("Add", "Cast", "Clip", "Constant", "Conv", "ConvTranspose", "Div", "Identity", "LeakyRelu"),
    *("Mul", "Slice", "Squeeze", "Tanh", "Unsqueeze"),
}
"""Operators whose value at a place depends on places near it alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCut:
    """Cut of a network of VITS between the part that runs once a sentence, and its decoder."""

    inputs: tuple[str, ...]
    others: tuple[str, ...]
    """Inputs of the decoder besides the latents."""
    latents: str
    durations: str
    audio: str
    frame_samples: int
    context: int
    """Frames on each side that a frame of the sound hears."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PiperVoice:
    path: Path
    language: str
    sample_rate: int
    units: Mapping[str, Sequence[int]]
    """Numbers of what is written, by a letter each."""
    speakers: Mapping[str, int]
    """Speakers by name; empty for a voice of one."""
    scales: Sequence[float]
    """Noise of the sound, length of sounds, and noise of the length."""

    @property
    def name(self) -> str:
        """The value of the option `voice`."""
        return self.path.stem

    def added(self) -> AddedVoice:
        """Return the voice as client and gateway know it; the errors are those of `read_cut`."""
        several = f", {len(self.speakers)} speakers: {self.name}#SPEAKER" if self.speakers else ""
        cut = read_cut(self.path)
        return AddedVoice(
            synthesizer=NAME,
            name=self.name,
            language=self.language,
            description=f"a voice of Piper{several}",
            has_speakers=bool(self.speakers),
            sample_rate=self.sample_rate,
            frame_samples=cut.frame_samples,
            context=cut.context,
        )


def check_piper(folder: Path) -> ModelSummary:
    """Check a folder, and return what it is; the errors are of `read_voices` and `read_cut`."""
    added = tuple(voice.added() for voice in read_voices(folder))
    known = voices()
    for voice in added:
        if voice.name in known and known[voice.name].name != NAME:
            raise UnfitModelError(f"its {voice.name}.onnx has the name of another voice")
    family = f"Piper: {', '.join(voice.name for voice in added)}"
    return ModelSummary(1, size_of(folder), family=family, voices=added)


@readable()
def read_voices(folder: Path) -> list[PiperVoice]:
    """Return the voices of a folder, by name; their networks are not read."""
    paths = sorted(folder.glob("*.onnx"))
    lacking = [f"{path.name}.json" for path in paths if not Path(f"{path}.json").is_file()]
    if lacking or not paths:
        raise UnfitModelError(
            f"it lacks {', '.join(lacking) or 'NAME.onnx'}; a voice of Piper has NAME.onnx and "
            "NAME.onnx.json",
            1 - len(lacking) / len(paths) if paths else 0,
        )
    return [_voice(path) for path in paths]


def _voice(path: Path) -> PiperVoice:
    name = f"{path.name}.json"
    settings = read_json(Path(f"{path}.json"), dict, "JSON object")
    try:
        phoneme_type = settings.get("phoneme_type", "espeak")
        code = settings.get("language", {}).get("code") or settings["espeak"]["voice"]
        language, *land = re.split("[-_]", code)
        units = {key: [*map(int, numbers)] for key, numbers in settings["phoneme_id_map"].items()}
        scales = settings.get("inference", {})
        voice = PiperVoice(
            path=path,
            language="-".join([language, *map(str.upper, land[:1])]),
            sample_rate=int(settings["audio"]["sample_rate"]),
            units=units,
            speakers={key: int(item) for key, item in settings.get("speaker_id_map", {}).items()},
            scales=[float(scales.get(key, usual)) for key, usual in SCALES.items()],
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnfitModelError(f"its {name} is not Piper's: {error!r:.100}") from None
    if phoneme_type != "espeak":
        raise UnfitModelError(
            f"its {name} has phoneme_type {phoneme_type!r:.40}; only espeak is served"
        )
    if language != "en":
        raise UnfitModelError(
            f"its {name} is of the language {code:.40}: texts are read in English alone"
        )
    if lacking := UNITS - units.keys():
        raise UnfitModelError(f"its {name} lacks the units {' '.join(sorted(lacking))}")
    return voice


def read_cut(path: Path) -> NetworkCut:
    """Return where a network is cut, by the shape of its graph: exports name it differently."""
    # Where it is needed: it takes a second to import.
    import onnx
    from google.protobuf.message import DecodeError

    try:
        graph = onnx.load(str(path), load_external_data=False).graph
    except DecodeError:
        raise _unfit(path, "it is no ONNX model") from None
    if any(onnx.external_data_helper.uses_external_data(item) for item in graph.initializer):
        raise _unfit(path, "its weights are in another file")
    sizes = {item.name: item.dims for item in graph.initializer}
    inputs = tuple(item.name for item in graph.input if item.name not in sizes)
    if inputs not in (INPUTS, (*INPUTS, SPEAKER)):
        raise _unfit(path, f"it takes {', '.join(inputs)}, not {', '.join(INPUTS)}")
    durations = [node.output[0] for node in graph.node if node.op_type == "Ceil"]
    begins = [*_begins(graph.node)]
    if len(durations) != 1 or len(begins) != 1:
        what = "no durations" if len(durations) != 1 else "no masked latent before a HiFi-GAN"
        raise _unfit(path, f"it has {what}, or several")
    latents, audio = begins[0].input[0], graph.output[0].name
    before = _needed_by(audio, graph.node, {latents})
    rates, reach = _reach(path, graph.node, latents)
    if audio not in rates or not before.isdisjoint(INPUTS) or begins[0].input[1] not in sizes:
        raise _unfit(path, f"its decoder needs more than its latent, {latents}")
    return NetworkCut(
        inputs=inputs,
        others=tuple(before.intersection(inputs)),
        latents=latents,
        durations=durations[0],
        audio=audio,
        frame_samples=rates[audio],
        context=math.ceil(reach[audio]),
    )


def _unfit(path: Path, why: str) -> UnfitModelError:
    return UnfitModelError(f"its {path.name} is no voice of Piper that can be cut: {why}")


def _begins(nodes: Sequence[Any]) -> Iterator[Any]:
    """Yield the convolutions of a masked value above the first layer that makes a value longer."""
    made_by = {output: node for node in nodes for output in node.output}
    todo = [node.input[0] for node in nodes if node.op_type == "ConvTranspose"][:1]
    while todo:
        node = made_by.get(todo.pop())
        if node is not None and node.op_type == "Conv":
            above = made_by.get(node.input[0])
            while above is not None and above.op_type in ("Slice", "Identity"):
                above = made_by.get(above.input[0])
            if above is not None and above.op_type == "Mul":
                yield node
        elif node is not None and node.op_type in ("LeakyRelu", "Add"):
            todo += node.input


def _needed_by(name: str, nodes: Sequence[Any], without: Set[str]) -> set[str]:
    """Return the names of all values that one depends on, except behind those of `without`."""
    needed = {name}
    for node in reversed(nodes):
        if not (needed - without).isdisjoint(node.output):
            needed.update(node.input)
    return needed - without


def _reach(
    path: Path, nodes: Sequence[Any], latents: str
) -> tuple[dict[str, int], dict[str, float]]:
    """Return positions a frame, and reach in frames, of values that depend on the latents."""
    rates, reach = {latents: 1}, {latents: 0.0}
    for node in nodes:
        sources = [name for name in node.input if name in reach]
        if not sources:
            continue
        if node.op_type not in LOCAL:
            raise _unfit(path, f"its decoder has {node.op_type}, which may hear all frames")
        rate, frames = rates[sources[0]], max(reach[name] for name in sources)
        if node.op_type in ("Conv", "ConvTranspose"):
            given = {item.name: [*item.ints] for item in node.attribute}
            size = given["kernel_shape"][0] - 1
            if node.op_type == "Conv":
                frames += size * given.get("dilations", [1])[0] / 2 / rate
            else:
                stride, before = given["strides"][0], given["pads"][0]
                frames += max(before, size - before) / stride / rate
                rate *= stride
        for output in node.output:
            rates[output], reach[output] = rate, frames
    return rates, reach
