"""The graphs that Conch runs of Moonshine, made for ONNX Runtime on a CPU.

There are three: `encoder` (waveform to hidden states), `cross` (hidden states to keys and values of
the decoder's cross-attention, once a segment) and `step` (the next token of each hypothesis).
Matrices, and two convolutions of three, are int8 with a scale for each output, or float32 in exact
graphs. The network is that of Jeffries et al., 2024 (https://arxiv.org/abs/2410.15608).
"""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto

from conch.component.arrays import Array, FloatArray
from conch.component.graph import MICROSOFT, Graph

Weights = Mapping[str, FloatArray]

HEADS = 8
ROTATED = 32
"""Values of each head that rotary embeddings turn; the others pass."""
ENCODER_POSITIONS = 1300
"""Hidden states that have rotary embeddings; 30 s of audio are 1,249."""
MAX_TOKENS = 256
"""Positions of the decoder."""
_EPSILON = 1e-5
_MOST = 127
"""Largest integer of a weight."""
_TO_THE_END = np.iinfo(np.int64).max


class _Graph(Graph):
    """A graph whose matrices are int8, or float32 if it is exact.

    With `unsaturated` no product saturates on CPUs without VNNI; see `_unsaturated`.
    """

    def __init__(self, *, exact: bool, unsaturated: bool = False) -> None:
        super().__init__()
        self._exact = exact
        self._quantized = _unsaturated if unsaturated else _quantized

    def linear(self, value: str, weight: FloatArray, bias: FloatArray | None = None) -> str:
        """Multiply by a matrix `[inputs, outputs]`, in int8 unless the graph is exact."""
        if self._exact:
            value = self.op("MatMul", value, self.array(weight))
            return value if bias is None else self.op("Add", value, self.array(bias))
        integers, scale = self._quantized(weight)
        optional = ["", self.array(bias)] if bias is not None else []
        inputs = (value, self.array(integers), self.array(scale), *optional)
        return self.op("DynamicQuantizeMatMul", *inputs, domain=MICROSOFT)

    def convolution(self, value: str, kernel: FloatArray, bias: FloatArray, stride: int) -> str:
        """Convolve `[1, frames, inputs]` with a kernel `[outputs, inputs, width]`.

        It is a product of unfolded frames. Unless the graph is exact it is one of int8 with a scale
        for each row: one scale for the audio would round quiet frames away.
        """
        width = kernel.shape[2]
        matrix = kernel.transpose(2, 1, 0).reshape(-1, len(kernel))
        places = self._unfolded(value, width, stride)
        if self._exact:
            return self.linear(self.op("Concat", *places, axis=-1), matrix, bias)
        # What can be done frame by frame is, as unfolded frames are twice as many.
        largest = self.op("ReduceMax", self.op("Abs", value), self.ints(-1), keepdims=1)
        largest = self.op("Max", *self._unfolded(largest, width, stride))
        step = self.array(np.array(1 / _MOST, np.float32))
        zero = self.array(np.array(128, np.uint8))
        # A row of zeros is 0 / 0: whatever integers that gives, the product is 0 again below.
        places = [
            self.op("QuantizeLinear", self.op("Div", place, largest), step, zero)
            for place in places
        ]
        integers, scale = self._quantized(matrix)
        inputs = (self.op("Concat", *places, axis=-1), self.array(integers), step)
        value = self.op("MatMulIntegerToFloat", *inputs, self.array(scale), zero, domain=MICROSOFT)
        return self.op("Add", self.op("Mul", value, largest), self.array(bias))

    def _unfolded(self, value: str, width: int, stride: int) -> list[str]:
        """Return the frames that each place of a kernel meets."""
        found = []
        for place in range(width):
            end = place - width + 1 or _TO_THE_END
            window = (self.ints(number) for number in (place, end, 1, stride))
            found.append(self.op("Slice", value, *window))
        return found

    def gelu(self, value: str) -> str:
        """Add a GELU: by a tangent, which is faster than the error function of an exact graph."""
        if self._exact:
            return self.op("Gelu", value)
        return self.op("FastGelu", value, domain=MICROSOFT)

    def rows(self, weight: FloatArray, places: str) -> str:
        """Look up rows of a matrix, in int8 with a scale for each row unless the graph is exact."""
        if self._exact:
            return self.op("Gather", self.array(weight), places)
        integers, scale = _quantized(weight.T)
        found = self.op("Gather", self.array(integers.T), places)
        scales = self.op("Gather", self.array(scale[:, None]), places)
        return self.op("Mul", self.op("Cast", found, to=TensorProto.FLOAT), scales)

    def norm(self, value: str, weight: FloatArray) -> str:
        """Normalise each frame; there is no bias."""
        return self.op("LayerNormalization", value, self.array(weight), axis=-1, epsilon=_EPSILON)

    def rotary(self, longest: int) -> tuple[str, str]:
        """Add the cosines and sines of rotary embeddings."""
        turns = 10000.0 ** (-np.arange(0, ROTATED, 2) / ROTATED)
        angles = np.arange(longest)[:, None] * turns
        return self.array(np.cos(angles).astype(np.float32)), self.array(
            np.sin(angles).astype(np.float32)
        )

    def queries_keys_values(
        self, value: str, weights: Weights, layer: str, position: str, rotary: tuple[str, str]
    ) -> list[str]:
        """Add the projections of self-attention, with positions in queries and keys."""
        joined = np.concatenate(
            [weights[f"{layer}self_attn.{name}_proj"] for name in "qkv"], axis=1
        )
        queries, keys, values = self.ops(
            3, "Split", self.linear(value, joined), axis=-1, num_outputs=3
        )
        turned = (
            self.op(
                "RotaryEmbedding",
                *(item, position, *rotary),
                domain=MICROSOFT,
                interleaved=1,
                num_heads=HEADS,
                rotary_embedding_dim=ROTATED,
            )
            for item in (queries, keys)
        )
        return [*turned, values]


def encoder(weights: Weights, *, exact: bool = False) -> onnx.ModelProto:
    """Return the graph of `waveform` [1, samples] to `hidden` [1, frames, size]."""
    graph = _Graph(exact=exact, unsaturated=True)
    waveform = graph.takes("waveform", 1, "samples")
    value = graph.op("Unsqueeze", waveform, graph.ints(1))
    value = graph.op("Conv", value, graph.array(weights["conv1.weight"]), strides=[64])
    value = graph.op("Transpose", graph.op("Tanh", value), perm=[0, 2, 1])
    # One group of all channels: its mean and variance span the whole audio.
    shape = graph.op("Shape", value)
    value = graph.op("Reshape", value, graph.ints(0, 1, -1))
    one, zero = graph.array(np.ones(1, np.float32)), graph.array(np.zeros(1, np.float32))
    value = graph.op("InstanceNormalization", value, one, zero, epsilon=_EPSILON)
    value = graph.op("Reshape", value, shape)
    # Nothing is padded, so what the normalisation multiplies and adds can be part of the kernel.
    kernel, bias = weights["conv2.weight"], weights["conv2.bias"]
    bias = bias + kernel.sum(axis=2) @ weights["groupnorm.Add"][:, 0]
    kernel = kernel * weights["groupnorm.Mul"]
    value = graph.gelu(graph.convolution(value, kernel, bias, stride=3))
    kernel, bias = weights["conv3.weight"], weights["conv3.bias"]
    value = graph.gelu(graph.convolution(value, kernel, bias, stride=2))
    rotary, start = graph.rotary(ENCODER_POSITIONS), graph.ints(0)
    for number in range(_num_layers(weights)):
        layer = f"layers.{number}."
        normed = graph.norm(value, weights[f"{layer}input_layernorm.weight"])
        heard = graph.op(
            "MultiHeadAttention",
            *graph.queries_keys_values(normed, weights, layer, start, rotary),
            domain=MICROSOFT,
            num_heads=HEADS,
        )
        heard = graph.linear(heard, weights[f"{layer}self_attn.o_proj"])
        value = graph.op("Add", value, heard)
        normed = graph.norm(value, weights[f"{layer}post_attention_layernorm.weight"])
        wide = graph.linear(normed, weights[f"{layer}mlp.fc1"], weights[f"{layer}mlp.fc1.bias"])
        wide = graph.gelu(wide)
        wide = graph.linear(wide, weights[f"{layer}mlp.fc2"], weights[f"{layer}mlp.fc2.bias"])
        value = graph.op("Add", value, wide)
    graph.gives(graph.norm(value, weights["layer_norm.weight"]), "hidden", 1, "frames", "size")
    return graph.model("moonshine")


def cross(weights: Weights, *, exact: bool = False) -> onnx.ModelProto:
    """Return the graph of `hidden` [1, frames, size] to the cross-attention of each layer.

    It has `cross_keys.N` [1, heads, head size, frames] and `cross_values.N` [1, heads, frames, head
    size].
    """
    graph = _Graph(exact=exact, unsaturated=True)
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
        graph.gives(part, f"cross_{name}.{number}", *_cross_shape(name, head))
    return graph.model("moonshine")


def step(weights: Weights, *, exact: bool = False) -> onnx.ModelProto:
    """Return the graph of the next tokens of the hypotheses of one segment.

    Inputs: `ids` [rows, tokens], one row per hypothesis; `parents` [rows], each the row of the step
    before that a hypothesis goes on from; `position` [1] of the first token; `targets` [rows,
    tokens], whose log probabilities are wanted; `num_best` [1]; `past_keys.N` and `past_values.N`
    [rows before, heads, positions, head size]; and the outputs of `cross`. The hypotheses are
    queries of one cross-attention, so its keys and values exist once.

    Outputs, each after every token: `best_log_probs` and `best_ids` [rows, tokens, num_best],
    `target_log_probs` [rows, tokens], `attention` [1, rows · tokens, frames], which is the mean of
    the heads of the upper half of the layers, and `keys.N` and `values.N`, the past of the next
    step.
    """
    graph = _Graph(exact=exact)
    size = len(weights["norm.weight"])
    head, layers = size // HEADS, _num_layers(weights)
    ids = graph.takes("ids", "rows", "tokens", kind=TensorProto.INT64)
    parents = graph.takes("parents", "rows", kind=TensorProto.INT64)
    position = graph.takes("position", 1, kind=TensorProto.INT64)
    targets = graph.takes("targets", "rows", "tokens", kind=TensorProto.INT64)
    num_best = graph.takes("num_best", 1, kind=TensorProto.INT64)
    embeddings = weights["embed_tokens.weight"]
    value = graph.rows(embeddings, ids)
    rows_tokens = graph.op("Shape", ids)
    as_queries = graph.ints(1, -1, HEADS, head)
    as_rows = graph.op("Concat", rows_tokens, graph.ints(size), axis=0)
    rotary, attentions = graph.rotary(MAX_TOKENS), []
    for number in range(layers):
        layer = f"layers.{number}."
        past = [
            graph.op(
                "Gather",
                graph.takes(f"past_{name}.{number}", "rows before", HEADS, "positions", head),
                parents,
            )
            for name in ("keys", "values")
        ]
        normed = graph.norm(value, weights[f"{layer}input_layernorm.weight"])
        said, *present = graph.ops(
            3,
            "MultiHeadAttention",
            *graph.queries_keys_values(normed, weights, layer, position, rotary),
            *("", "", "", *past),
            domain=MICROSOFT,
            num_heads=HEADS,
            unidirectional=1,
        )
        for name, item in zip(("keys", "values"), present, strict=True):
            graph.gives(item, f"{name}.{number}", "rows", HEADS, "positions now", head)
        value = graph.op("Add", value, graph.linear(said, weights[f"{layer}self_attn.o_proj"]))
        normed = graph.norm(value, weights[f"{layer}post_attention_layernorm.weight"])
        keys, values = (
            graph.takes(f"cross_{name}.{number}", *_cross_shape(name, head))
            for name in ("keys", "values")
        )
        scaled = weights[f"{layer}encoder_attn.q_proj"] / np.float32(np.sqrt(head))
        queries = graph.op("Reshape", graph.linear(normed, scaled), as_queries)
        queries = graph.op("Transpose", queries, perm=[0, 2, 1, 3])
        attention = graph.op("Softmax", graph.op("MatMul", queries, keys), axis=-1)
        if number >= layers // 2:
            attentions.append(graph.op("ReduceMean", attention, graph.ints(1), keepdims=0))
        heard = graph.op("Transpose", graph.op("MatMul", attention, values), perm=[0, 2, 1, 3])
        heard = graph.op("Reshape", heard, as_rows)
        value = graph.op("Add", value, graph.linear(heard, weights[f"{layer}encoder_attn.o_proj"]))
        normed = graph.norm(value, weights[f"{layer}final_layernorm.weight"])
        wide = graph.linear(normed, weights[f"{layer}mlp.fc1"], weights[f"{layer}mlp.fc1.bias"])
        kept, gate = graph.ops(2, "Split", wide, axis=-1, num_outputs=2)
        kept = graph.op("Mul", kept, graph.op("Mul", gate, graph.op("Sigmoid", gate)))
        narrow = graph.linear(kept, weights[f"{layer}mlp.fc2"], weights[f"{layer}mlp.fc2.bias"])
        value = graph.op("Add", value, narrow)
    value = graph.linear(graph.norm(value, weights["norm.weight"]), embeddings.T)
    log_probs = graph.op("LogSoftmax", value, axis=-1)
    best, best_ids = graph.ops(2, "TopK", log_probs, num_best, axis=-1)
    at = graph.op("Unsqueeze", targets, graph.ints(2))
    wanted = graph.op("Squeeze", graph.op("GatherElements", log_probs, at, axis=2), graph.ints(2))
    graph.gives(best, "best_log_probs", "rows", "tokens", "best")
    graph.gives(best_ids, "best_ids", "rows", "tokens", "best", kind=TensorProto.INT64)
    graph.gives(wanted, "target_log_probs", "rows", "tokens")
    graph.gives(graph.op("Mean", *attentions), "attention", 1, "queries", "frames")
    return graph.model("moonshine")


def _num_layers(weights: Weights) -> int:
    return sum(name.endswith("mlp.fc1") for name in weights)


def _cross_shape(name: str, head: int) -> tuple[int | str, ...]:
    return (1, HEADS, head, "frames") if name == "keys" else (1, HEADS, "frames", head)


def _quantized(weight: FloatArray) -> tuple[Array, FloatArray]:
    """Return int8 `[inputs, outputs]` of a matrix, and a scale for each output."""
    return _integers(weight, np.abs(weight).max(axis=0))


def _unsaturated(weight: FloatArray) -> tuple[Array, FloatArray]:
    """Return what `_quantized` does, with integers that no CPU's products saturate.

    Without VNNI, ONNX Runtime adds the products of two neighbouring inputs in 16 bits. Inputs are
    up to 255, so the weights of a pair may add up to 128.
    """
    # Two roundings add at most 1.
    pairs = np.add.reduceat(weight, np.arange(0, len(weight), 2), axis=0)
    return _integers(weight, np.maximum(np.abs(weight).max(axis=0), np.abs(pairs).max(axis=0)))


def _integers(weight: FloatArray, largest: FloatArray) -> tuple[Array, FloatArray]:
    scale = largest / _MOST
    return np.round(weight / scale).astype(np.int8), scale.astype(np.float32)
