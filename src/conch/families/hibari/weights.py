"""hibari's network, cut in two: what a sentence needs once, and what works on any stretch of it."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime

from conch.cache import cached_folder, digest_of
from conch.component.niceness import be_nice
from conch.component.onnx import open_network, session_options
from conch.component.parameters import DeviceConfig, existing
from conch.families.hibari.declaration import PACKAGE
from conch.packaged import packaged

logger = logging.getLogger(__name__)

NETWORK = "hibari.onnx"
SHA256 = {NETWORK: "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8"}
ACOUSTIC, VOCODER = "acoustic.onnx", "vocoder.onnx"
LATENTS, PITCH, DURATIONS = "/Concat_43_output_0", "f0", "/Clip_output_0"
"""Values of the network between the two, and what else is read of the first."""
SPECTRUM = "/head/Add_output_0"
"""Output of the vocoder [1, frames, 5 x 601], before it is transposed and split."""
_REVISION = 1
"""Raise it with every change of the graphs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HibariConfig(DeviceConfig):
    """Parameters of the components."""

    intra_threads: int = 1
    """CPU threads of one call; several sentences are under way at once."""
    nice: int = 5
    """Least niceness of the process, 0 to 19: with more than 0, live streams of recognition go
    first."""


def open_graph(config: HibariConfig, name: str) -> onnxruntime.InferenceSession:
    """Open one of the graphs for a component, in whose process it is.

    Raises:
        ConfigError: it cannot be loaded, or a parameter is out of range.
    """
    be_nice(config.nice)
    options = session_options(config.threads, keeps_memory=False)
    return open_network("graph of hibari", graphs_folder(config.model) / name, options)


def graphs_folder(model: str) -> Path:
    """Return a folder with the graphs, which are made at first use.

    Args:
        model: Path of a network of hibari; empty for that of the package.

    Raises:
        ConfigError: it is missing or is not the expected one, or the graphs cannot be kept.
    """
    if model:
        source = existing(Path(model), "a network of hibari")
    else:
        source = packaged(PACKAGE, "assets", SHA256) / NETWORK

    def make(path: Path) -> None:
        logger.warning("making the graphs of hibari in %s, once", path.name)
        write_graphs(source, path)

    name = f"hibari-{digest_of(source)}-{_REVISION}"
    return cached_folder(name, "the graphs of hibari", make)


def write_graphs(source: Path, folder: Path) -> None:
    """Write both graphs into a new folder.

    The weights of the vocoder become floats: its int8 takes ranges over all frames of a call, so
    that a chunk would not equal the whole.
    """
    # Where it is needed: it takes a second to import.
    import onnx
    from onnx.utils import Extractor

    folder.mkdir()
    cut = Extractor(onnx.load(str(source)))
    acoustic = cut.extract_model(["ids", "speed"], [LATENTS, PITCH, DURATIONS])
    onnx.save(acoustic, str(folder / ACOUSTIC))
    vocoder = cut.extract_model([LATENTS], [SPECTRUM])
    dequantize(vocoder.graph)
    onnx.save(vocoder, str(folder / VOCODER))


def dequantize(graph: Any) -> None:
    """Replace each product of int8 in a graph of ONNX by the same of floats, in place."""
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
    _replace_nodes(graph, kept)


def _replace_nodes(graph: Any, nodes: list[Any]) -> None:
    """Leave only nodes and weights in a graph that its outputs need."""
    wanted = {item.name for item in graph.output}
    left = []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            left.append(node)
            wanted.update(node.input)
    weights = [item for item in graph.initializer if item.name in wanted]
    for field, items in ((graph.node, left[::-1]), (graph.initializer, weights)):
        del field[:]
        field.extend(items)
