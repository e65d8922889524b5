"""Replace the int8 products of an exported CTC graph by float32 products.

The int8 products are calls of a function in the file (`lab.training.ctc.int8`). They are made for
CPUs; ONNX Runtime has no such product on CUDA.
"""

from pathlib import Path

import onnx
import onnx.parser

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
"""How the function makes uint8 `quantized` of float32 `rows`: each has a scale of its own.

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


def float_graph(path: Path) -> onnx.ModelProto:
    """Return an exported graph with float32 products, whose weights ONNX Runtime scales at load."""
    proto = onnx.load(path)
    for function in proto.functions:
        if function.name == OPERATOR:
            function.CopyFrom(onnx.parser.parse_function(_IN_FLOAT))
    return proto
