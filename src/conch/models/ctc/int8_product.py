"""The int8 products of an exported CTC graph, and the same graph without them.

They are calls of a function that the file itself defines (`lab.training.ctc.int8`): made for CPUs,
as ONNX Runtime has no such product on CUDA.
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
    """Return an exported graph with its products in float32.

    The runtime multiplies weights and scales out when it loads the graph.
    """
    proto = onnx.load(path)
    for function in proto.functions:
        if function.name == OPERATOR:
            function.CopyFrom(onnx.parser.parse_function(_IN_FLOAT))
    return proto
