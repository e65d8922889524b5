"""The graphs that Conch runs of its CTC model, made of an exported one.

PyTorch exports attention as some twenty operators for each layer, and `lab.training.ctc.int8` its
products in operators that every runtime knows. On a CPU, ONNX Runtime has one operator of its own
for each. On CUDA it has no such product, and `float_graph` takes float32.
"""

import logging
from pathlib import Path

import onnx
import onnx.parser
from google.protobuf.message import DecodeError
from onnx import TensorProto, helper

from conch.component.graph import MICROSOFT
from conch.wire.errors import ConfigError

logger = logging.getLogger(__name__)

DOMAIN, OPERATOR = "conch", "Int8Product"
QUANTIZED = """
    magnitudes = Abs (rows)
    largest = ReduceMax <axes = [-1]> (magnitudes)
    least = Constant <value_float = 1e-12> ()
    some = Max (largest, least)
    most = Constant <value_float = 127.0> ()
    scale = Div (some, most)
    scaled = Div (rows, scale)
    one = Constant <value_float = 1.0> ()
    zero = Constant <value = uint8 {128}> ()
    quantized = QuantizeLinear (scaled, one, zero)
"""
"""Operators from float32 `rows` to uint8 `quantized`, each row with a scale of its own.

Unsigned around 128: x86 multiplies that many times as fast as signed activations."""
_IN_FLOAT = f"""
<domain: "{DOMAIN}", opset_import: ["" : 17]>
{OPERATOR} (rows, weight, weight_scale) => (product)
{{
    integers = Cast <to = 1> (weight)
    scaled = Mul (integers, weight_scale)
    product = MatMul (rows, scaled)
}}
"""
_TIME = 2
"""Axis of keys and values `[B, heads, frames, D / heads]`."""
_PRODUCT = f"""
<domain: "{DOMAIN}", opset_import: ["" : 17, "{MICROSOFT}" : 1]>
{OPERATOR} (rows, weight, weight_scale) => (product)
{{{QUANTIZED}
    by_column = {MICROSOFT}.MatMulIntegerToFloat (quantized, weight, one, weight_scale, zero)
    product = Mul (by_column, scale)
}}
"""
"""Product of `lab.training.ctc.int8`, whose operators from `MatMulInteger` on are one."""


def float_graph(path: Path) -> onnx.ModelProto:
    """Return an exported graph with float32 products, whose weights ONNX Runtime scales at load."""
    proto = onnx.load(path)
    for function in proto.functions:
        if function.name == OPERATOR:
            function.CopyFrom(onnx.parser.parse_function(_IN_FLOAT))
    return proto


def cpu_graph(path: Path, *, is_whole: bool) -> bytes:
    """Return a graph of an exported one, with the same inputs and outputs.

    If `is_whole`, it takes one utterance in full context, without padding, and gives its log
    probabilities alone.
    """
    try:
        content: bytes = _rewritten(onnx.load(path), is_whole=is_whole).SerializeToString()
    except DecodeError as error:
        raise ConfigError(f"cannot load the CTC model {path}: {error}") from error
    except ValueError as error:  # of another version of the exporter
        logger.warning("the CTC model %s runs as it is, which is slower: %s", path, error)
        content = path.read_bytes()
    return content


def _rewritten(proto: onnx.ModelProto, *, is_whole: bool) -> onnx.ModelProto:
    """Rewrite a graph; one without the expected operators is a `ValueError`."""
    (keys,) = (item for item in proto.graph.input if item.name == "keys")
    _, layers, heads, _, _ = (dim.dim_value for dim in keys.type.tensor_type.shape.dim)
    for function in proto.functions:
        if any(node.op_type == "MatMulInteger" for node in function.node):
            function.CopyFrom(onnx.parser.parse_function(_PRODUCT))
    proto.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    nodes = [*proto.graph.node]
    (seen,) = (index for index, node in enumerate(nodes) if node.op_type == "And")
    mask = "mask_of_attention"
    cast = helper.make_node("Cast", nodes[seen].output, [mask], to=TensorProto.INT32)
    nodes.insert(seen + 1, cast)
    for layer in range(layers):
        # The exporter numbers the modules of a name from the second on.
        number = f"_{layer}" if layer else ""
        names = [node.name for node in nodes]
        begin = names.index(f"/attention_in{number}/Add")
        end = names.index(f"/attention_out{number}/MatMul")
        projected = [f"{name}_of_{layer}" for name in ("query", "key", "value")]
        attended = f"attended_of_{layer}"
        inputs = projected
        if not is_whole:
            # Keys and values behind those of the caches: what the exporter joins along the time.
            joined = [
                node.output[0]
                for node in nodes[begin:end]
                if node.op_type == "Concat" and node.attribute[0].i == _TIME
            ]
            inputs = [projected[0], *joined, "", mask]
        nodes[end].input[0] = attended
        nodes[end:end] = [
            helper.make_node("Split", nodes[begin].output, projected, axis=-1),
            helper.make_node(
                "MultiHeadAttention", inputs, [attended], domain=MICROSOFT, num_heads=heads
            ),
        ]
    if is_whole:
        del proto.graph.output[1:]
    # ONNX Runtime would compute what nothing needs any more.
    needed, kept = {item.name for item in proto.graph.output}, []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            needed.update(node.input)
            kept.append(node)
    del proto.graph.node[:]
    proto.graph.node.extend(reversed(kept))
    return proto
