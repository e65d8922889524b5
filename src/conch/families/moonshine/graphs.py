"""The graphs that Conch runs of Moonshine, made for ONNX Runtime on a CPU.

There are three: `encoder` (waveform to hidden states), `cross` (hidden states to keys and values of
the decoder's cross-attention, once a segment) and `step` (the next tokens of several segments).
Matrices are int8 with a scale for each output. The network is that of Jeffries et al., 2024
(https://arxiv.org/abs/2410.15608).
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto

from conch.component import FloatArray
from conch.component.graph import MICROSOFT, Graph, quantized
from conch.families.moonshine import MAX_TOKENS

Weights = Mapping[str, FloatArray]

HEADS = 8
ROTATED = 32
"""Values of each head that rotary embeddings turn; the others pass."""
ENCODER_POSITIONS = 1300
"""Hidden states that have rotary embeddings; 30 s of audio are 1,249."""
_EPSILON = 1e-5


class MoonshineGraph(Graph):
    def linear(self, value: str, weight: FloatArray, bias: FloatArray | None = None) -> str:
        """Multiply by a matrix `[inputs, outputs]`, in int8."""
        integers, scale = quantized(weight)
        optional = ["", self.array(bias)] if bias is not None else []
        inputs = (value, self.array(integers), self.array(scale), *optional)
        return self.op("DynamicQuantizeMatMul", *inputs, domain=MICROSOFT)

    def linear_by_row(self, value: str, weight: FloatArray, bias: FloatArray | None = None) -> str:
        """Multiply as `linear` does, with a scale for each row of `value`."""
        product = self.product_by_row(value, weight)
        return product if bias is None else self.op("Add", product, self.array(bias))

    def gelu(self, value: str) -> str:
        """Add a GELU by a tangent, which is faster than the error function."""
        return self.op("FastGelu", value, domain=MICROSOFT)

    def norm(self, value: str, weight: FloatArray) -> str:
        """Normalise each frame; there is no bias."""
        return self.op("LayerNormalization", value, self.array(weight), axis=-1, epsilon=_EPSILON)

    def queries_keys_values(
        self,
        value: str,
        weights: Weights,
        layer: str,
        position: str,
        rotary: Sequence[str],
        linear: Callable[[str, FloatArray], str],
    ) -> list[str]:
        """Add the projections of self-attention, with positions in queries and keys."""
        joined = np.concatenate(
            [weights[f"{layer}self_attn.{name}_proj"] for name in "qkv"], axis=1
        )
        queries, keys, values = self.ops(3, "Split", linear(value, joined), axis=-1, num_outputs=3)
        turned = (self.turned(item, position, rotary, ROTATED, HEADS) for item in (queries, keys))
        return [*turned, values]


def encoder(weights: Weights) -> onnx.ModelProto:
    """Return the graph of `waveform` [1, samples] to `hidden` [1, frames, size]."""
    graph = MoonshineGraph()
    waveform = graph.takes("waveform", 1, "samples")
    value = graph.op("Unsqueeze", waveform, graph.ints(1))
    value = graph.op("Conv", value, graph.array(weights["conv1.weight"]), strides=[64])
    value = graph.op("Tanh", value)
    # One group of all channels: its mean and variance span the whole audio.
    shape = graph.op("Shape", value)
    value = graph.op("Reshape", value, graph.ints(0, 1, -1))
    one, zero = graph.array(np.ones(1, np.float32)), graph.array(np.zeros(1, np.float32))
    value = graph.op("InstanceNormalization", value, one, zero, epsilon=_EPSILON)
    value = graph.op("Reshape", value, shape)
    value = graph.op("Mul", value, graph.array(weights["groupnorm.Mul"]))
    value = graph.op("Add", value, graph.array(weights["groupnorm.Add"]))
    for name, stride in (("conv2", 3), ("conv3", 2)):
        kernel = [graph.array(weights[f"{name}.{part}"]) for part in ("weight", "bias")]
        value = graph.gelu(graph.op("Conv", value, *kernel, strides=[stride]))
    value = graph.op("Transpose", value, perm=[0, 2, 1])
    rotary, start = graph.rotary(ENCODER_POSITIONS, ROTATED, 10_000.0), graph.ints(0)
    for number in range(_num_layers(weights)):
        layer = f"layers.{number}."
        normed = graph.norm(value, weights[f"{layer}input_layernorm.weight"])
        attended = graph.op(
            "MultiHeadAttention",
            *graph.queries_keys_values(normed, weights, layer, start, rotary, graph.linear),
            domain=MICROSOFT,
            num_heads=HEADS,
        )
        attended = graph.linear(attended, weights[f"{layer}self_attn.o_proj"])
        value = graph.op("Add", value, attended)
        normed = graph.norm(value, weights[f"{layer}post_attention_layernorm.weight"])
        wide = graph.linear(normed, weights[f"{layer}mlp.fc1"], weights[f"{layer}mlp.fc1.bias"])
        wide = graph.gelu(wide)
        wide = graph.linear(wide, weights[f"{layer}mlp.fc2"], weights[f"{layer}mlp.fc2.bias"])
        value = graph.op("Add", value, wide)
    graph.gives(graph.norm(value, weights["layer_norm.weight"]), "hidden", 1, "frames", "size")
    return graph.model("moonshine")


def cross(weights: Weights) -> onnx.ModelProto:
    """Return the graph of `hidden` [1, frames, size] to the cross-attention of each layer.

    It has `cross_keys.N` [1, heads, head size, frames] and `cross_values.N` [1, heads, frames, head
    size].
    """
    graph = MoonshineGraph()
    size = len(weights["norm.weight"])
    head, layers = size // HEADS, _num_layers(weights)
    names = [(number, name) for number in range(layers) for name in ("keys", "values")]
    joined = [weights[f"layers.{number}.encoder_attn.{name[0]}_proj"] for number, name in names]
    value = graph.linear(graph.takes("hidden", 1, "frames", size), np.concatenate(joined, axis=1))
    parts = graph.ops(len(names), "Split", value, axis=-1, num_outputs=len(names))
    for part, (number, name) in zip(parts, names, strict=True):
        part = graph.op("Reshape", part, graph.ints(0, 0, HEADS, head))
        order = [0, 2, 3, 1] if name == "keys" else [0, 2, 1, 3]
        part = graph.op("Transpose", part, perm=order)
        graph.gives(part, f"cross_{name}.{number}", *_cross_shape(name, head, "frames"))
    return graph.model("moonshine")


def step(weights: Weights, segments: int) -> onnx.ModelProto:
    """Return the graph of the next tokens of the hypotheses of up to `segments` segments.

    The tokens of all hypotheses share the products with the decoder's matrices. Attention is that
    of each segment alone, so no segment is padded, and none depends on the others.

    Inputs: `ids` [1, tokens], those of the first segment's first hypothesis first; `positions` [1,
    tokens]; `targets` [1, tokens], whose log probabilities are wanted; `num_best` [1]; `counts`
    [segments], the tokens of each segment, of which there may be none. Of segment S: `shape.S` [3],
    its hypotheses, the tokens of each and the size of a state; `parents.S` [hypotheses], each the
    row of the step before that a hypothesis goes on from; `past_keys.N.S` and `past_values.N.S`
    [rows before, heads, positions, head size]; and the outputs of `cross`. The hypotheses of a
    segment are queries of one cross-attention, so its keys and values exist once.

    Outputs: `best_log_probs` and `best_ids` [1, tokens, num_best], `target_log_probs` [1, tokens],
    each after every token. Of segment S: `attention.S` [1, tokens, frames], which is the mean of
    the heads of the upper half of the layers, and `keys.N.S` and `values.N.S`, the past of the
    next step.
    """
    graph = MoonshineGraph()
    size, layers = len(weights["norm.weight"]), _num_layers(weights)
    ids, positions, targets = (
        graph.takes(name, 1, "tokens", elem_type=TensorProto.INT64)
        for name in ("ids", "positions", "targets")
    )
    num_best = graph.takes("num_best", 1, elem_type=TensorProto.INT64)
    counts = graph.takes("counts", segments, elem_type=TensorProto.INT64)
    each = [_Segment(graph, number, size) for number in range(segments)]
    embeddings = weights["embed_tokens.weight"]
    value = graph.rows(embeddings, ids)
    rotary = graph.rotary(MAX_TOKENS, ROTATED, 10_000.0)
    in_heads, as_tokens = graph.ints(1, -1, HEADS, size // HEADS), graph.ints(1, -1, size)

    def apart(value: str, axis: int) -> list[str]:
        if segments == 1:
            return [value]
        return graph.ops(segments, "Split", value, counts, axis=axis)

    def joined(values: list[str], axis: int) -> str:
        return values[0] if segments == 1 else graph.op("Concat", *values, axis=axis)

    for number in range(layers):
        layer = f"layers.{number}."
        normed = graph.norm(value, weights[f"{layer}input_layernorm.weight"])
        projected = graph.queries_keys_values(
            normed, weights, layer, positions, rotary, graph.linear_by_row
        )
        of_segments = zip(*(apart(item, axis=1) for item in projected), strict=True)
        said = [
            segment.self_attention(number, *items)
            for segment, items in zip(each, of_segments, strict=True)
        ]
        out = graph.linear_by_row(joined(said, axis=1), weights[f"{layer}self_attn.o_proj"])
        value = graph.op("Add", value, out)
        normed = graph.norm(value, weights[f"{layer}post_attention_layernorm.weight"])
        scaled = weights[f"{layer}encoder_attn.q_proj"] / np.float32(np.sqrt(size // HEADS))
        queries = graph.op("Reshape", graph.linear_by_row(normed, scaled), in_heads)
        queries = graph.op("Transpose", queries, perm=[0, 2, 1, 3])
        attended = [
            segment.cross_attention(number, item, is_output=number >= layers // 2)
            for segment, item in zip(each, apart(queries, axis=2), strict=True)
        ]
        context = graph.op("Transpose", joined(attended, axis=2), perm=[0, 2, 1, 3])
        context = graph.op("Reshape", context, as_tokens)
        out = graph.linear_by_row(context, weights[f"{layer}encoder_attn.o_proj"])
        value = graph.op("Add", value, out)
        normed = graph.norm(value, weights[f"{layer}final_layernorm.weight"])
        fc1, fc2 = (
            (weights[f"{layer}mlp.{name}"], weights[f"{layer}mlp.{name}.bias"])
            for name in ("fc1", "fc2")
        )
        wide = graph.linear_by_row(normed, *fc1)
        kept, gate = graph.ops(2, "Split", wide, axis=-1, num_outputs=2)
        kept = graph.op("Mul", kept, graph.op("Mul", gate, graph.op("Sigmoid", gate)))
        value = graph.op("Add", value, graph.linear_by_row(kept, *fc2))
    value = graph.linear_by_row(graph.norm(value, weights["norm.weight"]), embeddings.T)
    log_probs = graph.op("LogSoftmax", value, axis=-1)
    best, best_ids = graph.ops(2, "TopK", log_probs, num_best, axis=-1)
    at = graph.op("Unsqueeze", targets, graph.ints(2))
    wanted = graph.op("Squeeze", graph.op("GatherElements", log_probs, at, axis=2), graph.ints(2))
    graph.gives(best, "best_log_probs", 1, "tokens", "best")
    graph.gives(best_ids, "best_ids", 1, "tokens", "best", elem_type=TensorProto.INT64)
    graph.gives(wanted, "target_log_probs", 1, "tokens")
    for segment in each:
        segment.output_attention()
    return graph.model("moonshine")


class _Segment:
    """One segment's attention; its names are its own, as ONNX Runtime reuses memory by name."""

    def __init__(self, graph: MoonshineGraph, number: int, size: int) -> None:
        self._graph, self._number, self._head = graph, number, size // HEADS
        self._shape = graph.takes(f"shape.{number}", 3, elem_type=TensorProto.INT64)
        self._parents = graph.takes(
            f"parents.{number}", f"rows {number}", elem_type=TensorProto.INT64
        )
        self._as_tokens = graph.ints(1, -1, size)
        self._heads = graph.ints(1)
        self._attentions: list[str] = []

    def self_attention(self, layer: int, queries: str, keys: str, values: str) -> str:
        graph, number = self._graph, self._number
        shape = (f"rows before {number}", HEADS, f"positions {number}", self._head)
        names = (f"past_{name}.{layer}.{number}" for name in ("keys", "values"))
        past = [graph.op("Gather", graph.takes(name, *shape), self._parents) for name in names]
        # A segment that is not there has no rows: with allowzero, 0 is no "as before".
        rows = [
            graph.op("Reshape", item, self._shape, allowzero=1) for item in (queries, keys, values)
        ]
        said, *present = graph.ops(
            3,
            "MultiHeadAttention",
            *rows,
            *("", "", "", *past),
            domain=MICROSOFT,
            num_heads=HEADS,
            unidirectional=1,
        )
        for name, item in zip(("keys", "values"), present, strict=True):
            shape = (f"rows {number}", HEADS, f"positions now {number}", self._head)
            graph.gives(item, f"{name}.{layer}.{number}", *shape)
        return graph.op("Reshape", said, self._as_tokens)

    def cross_attention(self, layer: int, queries: str, *, is_output: bool) -> str:
        graph, number = self._graph, self._number
        keys, values = (
            graph.takes(
                f"cross_{name}.{layer}.{number}",
                *_cross_shape(name, self._head, f"frames {number}"),
            )
            for name in ("keys", "values")
        )
        attention = graph.op("Softmax", graph.op("MatMul", queries, keys), axis=-1)
        if is_output:
            self._attentions.append(graph.op("ReduceMean", attention, self._heads, keepdims=0))
        return graph.op("MatMul", attention, values)

    def output_attention(self) -> None:
        """Output the mean attention of the layers that have added theirs."""
        number = self._number
        attention = self._graph.op("Mean", *self._attentions)
        self._graph.gives(
            attention, f"attention.{number}", 1, f"tokens {number}", f"frames {number}"
        )


def _num_layers(weights: Weights) -> int:
    return sum(name.endswith("mlp.fc1") for name in weights)


def _cross_shape(name: str, head: int, frames: str) -> tuple[int | str, ...]:
    return (1, HEADS, head, frames) if name == "keys" else (1, HEADS, frames, head)
