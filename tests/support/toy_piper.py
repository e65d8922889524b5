"""A small network of the shape of Piper's voices, drawn at random: nothing has to be fetched."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from conch.component import FloatArray
from conch.families.piper import UNITS

CHANNELS, HOP, CONTEXT = 6, 16, 5
SETTINGS: dict[str, Any] = {
    "audio": {"sample_rate": 16_000},
    "espeak": {"voice": "en-us"},
    "inference": {"noise_scale": 0.5, "length_scale": 1, "noise_w": 0.5},
    "phoneme_type": "espeak",
    "phoneme_id_map": {unit: [number] for number, unit in enumerate(sorted(UNITS))},
    "num_speakers": 1,
}


def write_piper(
    folder: Path,
    name: str = "toy",
    *,
    speakers: tuple[str, ...] = (),
    decoder: str = "LeakyRelu",
    mask: str = "Mul",
    **settings: Any,
) -> Path:
    """Write a voice into a folder, and return its network.

    Args:
        folder: Where.
        name: Of its files.
        speakers: Names of several.
        decoder: Operator of its decoder.
        mask: Operator that makes the latents.
        settings: Other values of SETTINGS.
    """
    rng = np.random.default_rng(3)

    def drawn(*shape: int) -> FloatArray:
        return rng.standard_normal(shape).astype(np.float32) / 2

    weights = {
        "texts": drawn(len(UNITS), CHANNELS),
        "lengths": np.linspace(0.6, 3.4, len(UNITS)).astype(np.float32),
        "zero": np.array(0),
        "one": np.array(1),
        "two": np.array(2),
        "first": np.array([0]),
        "second": np.array([1]),
        "pre": drawn(8, CHANNELS, 7),
        "up0": drawn(8, 4, 8),
        "up1": drawn(4, 3, 8),
        "post": drawn(1, 3, 7),
        "voices": drawn(max(1, len(speakers)), 8),
        "condition": drawn(8, 8, 1),
    }

    def node(kind: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
        return helper.make_node(kind, inputs.split(), [output], **attributes)

    nodes = [
        node("Gather", "scales zero", "sound_scale"),
        node("Gather", "scales one", "length_scale"),
        node("Gather", "scales two", "drawn_scale"),
        node("Gather", "lengths input", "usual"),
        node("RandomNormalLike", "usual", "drawn_lengths"),
        node("Abs", "drawn_lengths", "longer"),
        node("Mul", "longer drawn_scale", "more"),
        node("Add", "usual more", "drawn_usual"),
        node("Mul", "drawn_usual length_scale", "fractions"),
        node("Ceil", "fractions", "w"),
        node("CumSum", "w one", "ends"),
        node("ReduceMax", "ends", "last", keepdims=0),
        node("Cast", "last", "frames", to=TensorProto.INT64),
        node("Range", "zero frames one", "numbers"),
        node("Cast", "numbers", "places", to=TensorProto.FLOAT),
        node("Unsqueeze", "places second", "column"),
        node("LessOrEqual", "ends column", "is_over"),
        node("Cast", "is_over", "over", to=TensorProto.INT64),
        node("ReduceSum", "over second", "owners", keepdims=0),
        node("Gather", "texts input", "said"),
        node("Gather", "said owners", "rows", axis=1),
        node("Transpose", "rows", "mean", perm=[0, 2, 1]),
        node("RandomNormalLike", "mean", "noise_of_sound"),
        node("Mul", "noise_of_sound sound_scale", "part"),
        node("Add", "mean part", "sampled"),
        node("Abs", "second", "mask_number"),
        node("Cast", "mask_number", "mask", to=TensorProto.FLOAT),
        node(mask, "sampled mask", "z.3"),
        # The decoder.
        node("Conv", "z.3 pre", "hidden" if speakers else "begun", kernel_shape=[7], pads=[3, 3]),
        *(
            [
                node("Gather", "voices sid", "of_voice"),
                node("Unsqueeze", "of_voice two_axis", "column_of_voice"),
                node("Conv", "column_of_voice condition", "of_speaker", kernel_shape=[1]),
                node("Add", "hidden of_speaker", "begun"),
            ]
            if speakers
            else []
        ),
        node("LeakyRelu", "begun", "bent"),
        node(*("ConvTranspose", "bent up0", "longer0"), kernel_shape=[8], strides=[4], pads=[2, 2]),
        node(decoder, "longer0", "bent0"),
        node(
            *("ConvTranspose", "bent0 up1", "longer1"), kernel_shape=[8], strides=[4], pads=[2, 2]
        ),
        node("Conv", "longer1 post", "wave", kernel_shape=[7], dilations=[2], pads=[6, 6]),
        node("Tanh", "wave", "output"),
    ]
    weights["two_axis"] = np.array([2])
    inputs = [
        helper.make_tensor_value_info("input", TensorProto.INT64, ["batch", "units"]),
        helper.make_tensor_value_info("input_lengths", TensorProto.INT64, ["batch"]),
        helper.make_tensor_value_info("scales", TensorProto.FLOAT, [3]),
    ]
    if speakers:
        inputs.append(helper.make_tensor_value_info("sid", TensorProto.INT64, ["batch"]))
    output = helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", 1, "samples"])
    arrays = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "toy", inputs, [output], arrays)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    path = folder / f"{name}.onnx"
    onnx.save(onnx.shape_inference.infer_shapes(model), str(path))
    numbers = {speaker: number for number, speaker in enumerate(speakers)}
    found = {**SETTINGS, "speaker_id_map": numbers, **settings}
    Path(f"{path}.json").write_text(json.dumps(found))
    return path
