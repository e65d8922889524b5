"""Write a checkpoint as ONNX: one graph for streaming and for full context.

    python -m lab.training.ctc.export runs/first/final.pt --out model.onnx

Its inputs and outputs are those of `CtcModel.step`: features, lens and five caches; log_probs and
the five caches for the next step. All of them may have any batch, chunk and left context. An
utterance in one step with caches of no left frames is full context.
"""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from lab.arguments import script_parser
from lab.training.ctc import checkpoint
from lab.training.ctc.int8 import with_int8_products
from lab.training.ctc.model import Cache, CtcModel

FLAGS = """
--out FILE!                      the graph
--weights {fp32,fp16,int8}=int8  fp16 is for size only; int8 multiplies so on a CPU, in half the
                                 time
"""
CACHES = Cache._fields
_AXES = {
    "features": {0: "batch", 1: "frames"},
    "lens": {0: "batch"},
    "log_probs": {0: "batch", 1: "output_frames"},
    "mel": {0: "batch"},
    "conv": {0: "batch"},
    "keys": {0: "batch", 3: "left_frames"},
    "values": {0: "batch", 3: "left_frames"},
    "position": {0: "batch"},
}
_SMALL = 4096
"""Tensors of fewer numbers keep float32: they are no part of the size, but some of the accuracy."""


class Step(nn.Module):
    """`CtcModel.step` with the caches side by side."""

    def __init__(self, model: CtcModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: Tensor, lens: Tensor, *caches: Tensor) -> tuple[Tensor, ...]:
        log_probs, cache = self.model.step(features, lens, Cache(*caches))
        return (log_probs, *cache)


def main(arguments: list[str] | None = None) -> None:
    parser = script_parser(__doc__, FLAGS)
    parser.add_argument("checkpoint", type=Path)
    args = parser.parse_args(arguments)
    model, units = checkpoint.load_model(args.checkpoint)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    export(model, args.out)
    proto = onnx.load(args.out)
    if args.weights == "int8":
        proto = with_int8_products(proto)
    if args.weights != "fp32":
        proto = with_half_weights(proto)
    describe = {"units": json.dumps(units.to_dict()), "vocab": json.dumps(units.vocab)}
    helper.set_model_props(proto, {**describe, "stack": str(units.stack)})
    onnx.save(proto, args.out)
    size_mb, off = args.out.stat().st_size / 1e6, difference(model, args.out)
    print(f"{args.out}: {size_mb:.1f} MB, probabilities off by at most {off:.1e}")


def export(model: CtcModel, path: Path) -> None:
    """Write a model with float32 weights."""
    cache = model.empty_cache(2, 16)
    features, lens = (
        torch.randn(2, 32 * model.config.stack, model.config.n_mels),
        torch.tensor([32, 20]),
    )
    inputs = ["features", "lens", *CACHES]
    outputs = ["log_probs", *(f"next_{name}" for name in CACHES)]
    torch.onnx.export(
        Step(model),
        (features, lens, *cache),
        str(path),
        input_names=inputs,
        output_names=outputs,
        dynamic_axes={name: _AXES[name.removeprefix("next_")] for name in (*inputs, *outputs)},
        opset_version=17,
        dynamo=False,
    )


def with_half_weights(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a graph that keeps its large float32 weights as float16 and computes in float32.

    onnxruntime multiplies the casts out when it loads the graph.
    """
    casts = []
    for tensor in large_tensors(proto):
        value = numpy_helper.to_array(tensor)
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(value.astype(np.float16), f"{name}_fp16"))
        casts.append(helper.make_node("Cast", [f"{name}_fp16"], [name], to=TensorProto.FLOAT))
    nodes = [*casts, *proto.graph.node]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    return proto


def large_tensors(proto: onnx.ModelProto) -> list[TensorProto]:
    """Return the graph's large float32 weights, all of them as initializers."""
    for node in list(proto.graph.node):  # the positions are a constant
        if node.op_type == "Constant" and node.ByteSize() > 4 * _SMALL:
            tensor = node.attribute[0].t
            tensor.name = node.output[0]
            proto.graph.initializer.append(tensor)
            proto.graph.node.remove(node)
    return [
        tensor
        for tensor in proto.graph.initializer
        if tensor.data_type == TensorProto.FLOAT and np.prod(tensor.dims) >= _SMALL
    ]


def difference(model: CtcModel, path: Path) -> float:
    """Return the largest difference of probabilities from the model's, over some random steps."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    generator = torch.Generator().manual_seed(0)
    cache, worst = model.empty_cache(2, 40), 0.0
    lens = torch.tensor([32, 32])
    feeds = {name: value.numpy() for name, value in zip(CACHES, cache, strict=True)}
    for _ in range(4):
        features = torch.randn(2, 32, model.config.n_mels, generator=generator) * 0.4
        with torch.inference_mode():
            expected, cache = model.step(features, lens, cache)
        feed = {"features": features.numpy(), "lens": lens.numpy(), **feeds}
        log_probs, *caches = session.run(None, feed)
        feeds = dict(zip(CACHES, caches, strict=True))
        worst = max(worst, float(np.abs(np.exp(log_probs) - expected.exp().numpy()).max()))
    return worst


if __name__ == "__main__":
    main()
