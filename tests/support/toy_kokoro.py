"""A network with the values that Kokoro's is cut at, drawn at random: nothing has to be fetched."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from conch.component import FloatArray
from conch.families.kokoro import FRAME_SAMPLES, NAMES, NETWORK, STYLES
from conch.families.kokoro.components import (
    AUDIO,
    DURATIONS,
    LOUDNESS,
    PITCH,
    SIZES,
    SOURCE,
    STEP,
    STYLE,
    STYLE_ROWS,
    STYLE_SIZE,
    TEXT,
)

FRAMES_OF_TOKEN = 3
SOUNDS = 178
MEAN = "/decoder/decoder/decode.3/norm2/ReduceMean_output_0"
"""The mean over all frames, before a normalisation of as many channels as the text has."""


def write_kokoro(folder: Path) -> Path:
    """Write network and styles into a folder, and return it.

    A token takes three frames. A sample is a product of its frame's text, and a sum with its
    column of the source, and its pitch and its loudness by the style.
    """
    rng = np.random.default_rng(5)
    columns = FRAMES_OF_TOKEN * STEP

    def drawn(*shape: int) -> FloatArray:
        return rng.standard_normal(shape).astype(np.float32)

    def table(size: int) -> FloatArray:
        return drawn(SOUNDS, FRAMES_OF_TOKEN * size)

    weights = {
        "of_text": table(SIZES[TEXT]),
        "of_pitch": table(SIZES[PITCH]),
        "of_loudness": table(SIZES[LOUDNESS]),
        "of_source": drawn(SOUNDS, columns * 22),
        "of_last": drawn(1, 22, 1),
        "of_frame": drawn(FRAME_SAMPLES, SIZES[TEXT]) / 20,
        "three": np.full((1, 1), FRAMES_OF_TOKEN, np.float32),
        "text_shape": np.array([1, -1, SIZES[TEXT]]),
        "row_shape": np.array([1, -1]),
        "source_shape": np.array([1, -1, 22]),
        "samples_shape": np.array([-1]),
        "halves": np.array([STYLE_SIZE // 2] * 2),
        "one": np.array([1]),
        "two": np.array([2]),
        "of_column": np.array([1.0, 1.0, FRAME_SAMPLES / STEP], np.float32),
        "of_half": np.array([1.0, FRAME_SAMPLES / 2], np.float32),
    }

    def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
        names = ["" if name == "-" else name for name in inputs.split()]
        return helper.make_node(kind, names, outputs.split(), **attributes)

    spread = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
    spread["nearest_mode"] = "floor"
    nodes = [
        node("Cast", "tokens", "float_tokens", to=TensorProto.FLOAT),
        node("Mul", "float_tokens zero_float", "none"),
        node("Add", "none three", DURATIONS),
        node("Gather", "of_text tokens", "text_rows"),
        node("Reshape", "text_rows text_shape", "text_frames"),
        node("Transpose", "text_frames", TEXT, perm=[0, 2, 1]),
        node("Gather", "of_pitch tokens", "pitch_rows"),
        node("Reshape", "pitch_rows row_shape", "slow_pitch"),
        node("Mul", "slow_pitch speed", PITCH),
        node("Gather", "of_loudness tokens", "loudness_rows"),
        node("Reshape", "loudness_rows row_shape", LOUDNESS),
        node("Gather", "of_source tokens", "source_rows"),
        node("Reshape", "source_rows source_shape", "source_columns"),
        node("Transpose", "source_columns", "most_of_source", perm=[0, 2, 1]),
        node("Concat", "most_of_source of_last", SOURCE, axis=2),
        node("Split", "style halves", f"{STYLE} other_half", axis=1),
        # The second half.
        node("ReduceMean", f"{TEXT} two", MEAN, keepdims=1),
        node("Sub", f"{TEXT} {MEAN}", "centred"),
        node("MatMul", "of_frame centred", "frame_samples"),
        node("Transpose", "frame_samples", "in_order", perm=[0, 2, 1]),
        node("Reshape", "in_order samples_shape", "said"),
        node("Slice", f"{SOURCE} one_to zero_end two", "source_part"),
        node("ReduceMean", "source_part one", "source_mean", keepdims=1),
        node("Resize", "source_mean - of_column", "source_samples", **spread),
        node("Reshape", "source_samples samples_shape", "heard"),
        node("Mul", f"{PITCH} {LOUDNESS}", "tone"),
        node("Resize", "tone - of_half", "tone_samples", **spread),
        node("Reshape", "tone_samples samples_shape", "sung"),
        node("ReduceMean", f"{STYLE} one", "style_mean", keepdims=0),
        node("Mul", "sung style_mean", "styled"),
        node("Sum", "said heard styled", AUDIO),
    ]
    weights |= {
        "zero_float": np.zeros((1, 1), np.float32),
        "one_to": np.array([1]),
        "zero_end": np.array([2**31 - 1]),
    }

    def value(name: str, kind: int, *shape: int | str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    graph = helper.make_graph(
        nodes,
        "toy",
        [
            value("tokens", TensorProto.INT64, 1, "tokens"),
            value("style", TensorProto.FLOAT, 1, STYLE_SIZE),
            value("speed", TensorProto.FLOAT, 1),
        ],
        [value(AUDIO, TensorProto.FLOAT, "samples")],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(onnx.shape_inference.infer_shapes(model), str(folder / NETWORK))
    styles = np.memmap(
        folder / STYLES, np.float32, "w+", shape=(len(NAMES), STYLE_ROWS, STYLE_SIZE)
    )
    styles[:, :, 0] = np.arange(len(NAMES))[:, None]
    styles[:, :, 1] = styles[:, :, -1] = np.arange(STYLE_ROWS)
    styles.flush()
    return folder
