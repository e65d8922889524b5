"""Moonshine's weights, from the files of its package to the graphs that Conch runs."""

import hashlib
import logging
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from conch.cache import cached
from conch.component.arrays import Array, FloatArray
from conch.families.moonshine.declaration import PACKAGE, TOKENIZER
from conch.packaged import packaged
from conch.wire.errors import ConfigError

logger = logging.getLogger(__name__)

MODELS = "models/base-en"
ENCODER, DECODER = "encoder_model.ort", "decoder_model_merged.ort"
SHA256 = {
    ENCODER: "9d1a19e044cbf89a207723d1adb667de89a5671a1e3e611b8ebe721b2c31219c",
    DECODER: "370e0c1f161d68dc1c2264c1a82024fb123380da3b73f47f05531d1e8d3308c3",
}
"""Of moonshine-cpp 0.1.4."""
TOKENIZER_FOLDER, TOKENIZER_FILE = "assets", "tokenizer.json"
TOKENIZER_SHA256 = "b68b995a58b3373db6c4f46864a9db50cd1333d086150ffa2c1096581ede9c10"
"""Of useful-moonshine-onnx 20251121."""
GRAPHS = ("encoder.onnx", "cross.onnx", "step.onnx")
_REVISION = 1
"""Raise it with every change of the graphs."""
_PART = re.compile(r"_(quantized|scale|zero_point|cast_tensor|mul_tensor|add_tensor)$")
"""What the quantiser of the package adds to the name of a weight."""


def moonshine_folder(model: str) -> Path:
    """Return a folder with the graphs and tokenizer.json.

    Args:
        model: the folder; empty for the base model, whose graphs are made at first use: some 5 s.

    Raises:
        ConfigError: a file of the folder is missing; or the weights are not installed, are not the
            expected ones, or the graphs cannot be kept.
    """
    if model:
        folder = Path(model)
        for name in (*GRAPHS, TOKENIZER_FILE):
            if not (folder / name).is_file():
                raise ConfigError(f"'{folder}' is not a folder of Moonshine: it has no {name}")
        return folder
    source = packaged(PACKAGE, MODELS, SHA256)
    tokenizer = packaged(TOKENIZER, TOKENIZER_FOLDER, {TOKENIZER_FILE: TOKENIZER_SHA256})

    def make(path: Path) -> None:
        # A warning, as what is below that level does not reach the server's log.
        logger.warning("making the graphs of Moonshine in %s, once: it takes some 5 s", path.name)
        write_graphs(source, path)
        shutil.copy(tokenizer / TOKENIZER_FILE, path)

    files = " ".join((*SHA256.values(), TOKENIZER_SHA256))
    digest = hashlib.sha256(files.encode()).hexdigest()[:16]
    return cached(f"moonshine-base-{digest}-{_REVISION}", "Moonshine", make)


def write_graphs(source: Path, folder: Path, *, exact: bool = False) -> None:
    """Write the graphs of a model into a new folder.

    Args:
        source: Folder with the files `ENCODER` and `DECODER` of the package.
        folder: Where the graphs are written.
        exact: Whether they compute in float32, four times as large and twice as slow, as the
            reference of tests does.
    """
    # Where they are needed: onnx takes a second to import.
    import onnx

    from conch.families.moonshine import graphs

    folder.mkdir()
    decoder = read_weights(source / DECODER)
    made = (
        graphs.encoder(read_weights(source / ENCODER), exact=exact),
        graphs.cross(decoder, exact=exact),
        graphs.step(decoder, exact=exact),
    )
    for name, graph in zip(GRAPHS, made, strict=True):
        onnx.save(graph, str(folder / name))


def read_weights(path: Path) -> dict[str, FloatArray]:
    """Return the weights of a file in ONNX Runtime's format, float32, by their names in the model.

    Matrices are `[inputs, outputs]`. The package keeps a weight as int8 `X_quantized`, `X_scale`
    and `X_zero_point`. Most matrices have no name but that of the node which uses them.
    """
    import onnx
    import onnxruntime
    from onnx import numpy_helper

    with TemporaryDirectory() as scratch:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.optimized_model_filepath = f"{scratch}/model.onnx"
        options.add_session_config_entry("session.save_model_format", "ONNX")
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        model = onnx.load(f"{scratch}/model.onnx")
    branches = (
        part.g for node in model.graph.node for part in node.attribute if part.HasField("g")
    )
    parts = [model.graph, *branches]
    arrays = {
        item.name: numpy_helper.to_array(item) for graph in parts for item in graph.initializer
    }
    weights = {}
    names = {_PART.sub("", name) for name in arrays}
    for name in names:
        if not re.search(r"onnx::|Constant|/|^present", name):
            weights[_plain(name)] = _value(name, arrays)
    for graph in parts:
        for node in graph.node:
            if node.op_type == "MatMul" and (matrix := _PART.sub("", node.input[1])) in names:
                weights[_plain(node.name)] = _value(matrix, arrays)
            elif node.name in ("/groupnorm/Mul", "/groupnorm/Add"):
                (name,) = (name for name in node.input if name in arrays)
                weights[_plain(node.name)] = arrays[name]
    return weights


def _value(name: str, arrays: Mapping[str, Array]) -> FloatArray:
    """Return a weight, which may be quantised."""
    if name in arrays:
        return np.asarray(arrays[name], np.float32)
    scaled: Any = arrays[f"{name}_quantized"].astype(np.float32) * arrays[f"{name}_scale"]
    # Not subtracted before the scale, as elsewhere: it is a float that is added.
    return np.asarray(scaled + arrays.get(f"{name}_zero_point", np.float32(0)), np.float32)


def _plain(name: str) -> str:
    """Return the name of a weight in the model, from that of an initialiser or of a node."""
    dotted = name.strip("/").replace("/", ".").replace("_merged_0", "").removesuffix(".MatMul")
    return dotted.removeprefix("model.decoder.")
