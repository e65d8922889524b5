"""Moonshine's weights: a check of their folder, and the graphs that Conch makes of them."""

import hashlib
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from conch.cache import cached_folder
from conch.catalogue.checks import ModelSummary, UnfitModelError, check_files
from conch.component import Array, FloatArray
from conch.families.moonshine import BASE as MOONSHINE_BASE
from conch.families.moonshine import FILES, GRAPH_FILES, PACKAGE, STEP_FILES, TOKENIZER
from conch.packaged import packaged, sha256_of
from conch.wire.errors import ConfigError

if TYPE_CHECKING:
    import onnx

MODELS = "models/base-en"
ENCODER, DECODER, TOKENIZER_FILE = FILES
_REVISION = 6
"""Raise it with every change of the graphs."""
_PART = re.compile(r"_(quantized|scale|zero_point|cast_tensor|mul_tensor|add_tensor)$")
"""Endings of the names of weights by the packages' quantisers."""
_MERGED = re.compile(r"_merged_\d+")
_PRODUCTS = ("MatMul", "MatMulIntegerToFloat", "DynamicQuantizeMatMul")
_NAMES = {"dense": "o_proj", "up_proj": "fc1", "down_proj": "fc2"}
"""Names of parts in base, and in the graphs as in tiny."""


def check_moonshine(folder: Path) -> ModelSummary:
    return check_files((FILES, GRAPH_FILES), folder)


def moonshine_folder(model: str) -> Path:
    """Return a folder with the graphs and tokenizer.json.

    `model` is such a folder, or one with the files of a package, whose graphs are made at first
    use: some 8 s. Empty is the base model of the installed packages.
    """
    if model:
        folder = Path(model)
        try:
            check_files((FILES, GRAPH_FILES), folder)
        except UnfitModelError as error:
            raise ConfigError(f"'{folder}' is no folder of Moonshine: {error}") from None
        if all((folder / name).is_file() for name in GRAPH_FILES):
            return folder
        tokenizer, sums = folder, {name: sha256_of(folder / name) for name in FILES}
    else:
        sums = MOONSHINE_BASE.sha256
        folder = packaged(PACKAGE, MODELS, {name: sums[name] for name in (ENCODER, DECODER)})
        tokenizer = packaged(TOKENIZER, "assets", {TOKENIZER_FILE: sums[TOKENIZER_FILE]})

    def make(path: Path) -> None:
        write_graphs(folder, path)
        shutil.copy(tokenizer / TOKENIZER_FILE, path)

    files = " ".join(sums[name] for name in FILES)
    digest = hashlib.sha256(files.encode()).hexdigest()[:16]
    return cached_folder(f"moonshine-{digest}-{_REVISION}", "the graphs of Moonshine", make)


def write_graphs(source: Path, folder: Path) -> None:
    """Write the graphs of a model, whose package's files `source` has, into a new folder."""
    # Where they are needed: onnx takes a second to import.
    import onnx

    from conch.families.moonshine import graphs

    folder.mkdir()
    decoder = read_weights(source / DECODER)
    made = (
        graphs.encoder(read_weights(source / ENCODER)),
        graphs.cross(decoder),
        *(graphs.step(decoder, segments) for segments in STEP_FILES.values()),
    )
    for name, graph in zip(GRAPH_FILES[:-1], made, strict=True):
        onnx.save(graph, str(folder / name))


def read_weights(path: Path) -> dict[str, FloatArray]:
    """Return the weights of a file in ONNX Runtime's format, float32, by their names in the model.

    Matrices are `[inputs, outputs]`. The packages keep a weight as `X_quantized`, `X_scale` and
    `X_zero_point`. Most matrices have no name but that of the node which uses them.
    """
    from onnx import numpy_helper

    model = read_graph(path)
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
        if not re.search(r"onnx::|Constant|/|^(present|const_)", name):
            weights[_plain(name)] = _value(name, arrays)
    for graph in parts:
        for node in graph.node:
            if node.op_type in _PRODUCTS and (matrix := _PART.sub("", node.input[1])) in names:
                weights[_plain(node.name)] = _value(matrix, arrays)
            elif node.name in ("/groupnorm/Mul", "/groupnorm/Add"):
                (name,) = (name for name in node.input if name in arrays)
                weights[_plain(node.name)] = arrays[name]
    return weights


def read_graph(path: Path) -> "onnx.ModelProto":
    """Return a file in ONNX Runtime's format as a model of ONNX, with the same nodes."""
    import onnx
    import onnxruntime

    with TemporaryDirectory() as scratch:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.optimized_model_filepath = f"{scratch}/model.onnx"
        options.add_session_config_entry("session.save_model_format", "ONNX")
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return onnx.load(f"{scratch}/model.onnx")


def _value(name: str, arrays: Mapping[str, Array]) -> FloatArray:
    for plain in (name, f"{name}_add_tensor"):
        if plain in arrays:
            return np.asarray(arrays[plain], np.float32)
    integers = arrays[f"{name}_quantized"].astype(np.float32)
    scale, zero = arrays[f"{name}_scale"], arrays.get(f"{name}_zero_point", np.float32(0))
    # Base has a float that is added behind the scale, tiny an integer of the weight's own kind.
    is_behind = np.issubdtype(zero.dtype, np.floating)
    scaled: Any = integers * scale + zero if is_behind else (integers - np.float32(zero)) * scale
    return np.asarray(scaled, np.float32)


def _plain(name: str) -> str:
    """Return the name of a weight in the model, from that of an initialiser or of a node."""
    dotted = _MERGED.sub("", name).strip("/").replace("/", ".").removesuffix("_quant")
    parts = dotted.removesuffix(".MatMul").removeprefix("model.decoder.").split(".")
    return ".".join(_NAMES.get(part, part) for part in parts)
