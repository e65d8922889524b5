"""Replace the int8 products of an exported CTC graph by float32 products.

The int8 products are calls of a function in the file (`lab.training.ctc.int8`). They are made for
CPUs; ONNX Runtime has no such product on CUDA.
"""

from pathlib import Path

import onnx
import onnx.parser

DOMAIN, OPERATOR = "conch", "Int8Product"
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
