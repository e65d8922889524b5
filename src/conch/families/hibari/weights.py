"""hibari's network, and where it is cut."""

from typing import Any

from conch.families.hibari.declaration import PACKAGE
from conch.families.speech.graphs import Network, replace_nodes

LATENTS, PITCH, DURATIONS = "/Concat_43_output_0", "f0", "/Clip_output_0"
"""Values of the network between the two, and what else is read of the first."""
SPECTRUM = "/head/Add_output_0"
"""Output of the vocoder [1, frames, 5 x 601], before it is transposed and split."""


def dequantize(graph: Any) -> None:
    """Replace int8 products by floats, in place: ranges of int8 span all frames of a call."""
    import numpy as np
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
