"""The graph that scores texts on a CPU, made for ONNX Runtime of a model of architecture llama.

It reads a tree of tokens in one call, so that texts of one list share what they begin with.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from conch.component.arrays import FloatArray
from conch.component.graph import MICROSOFT, Graph

MAX_POSITIONS = 8192
"""Tokens of the longest text: SmolLM2 has learned no more."""


def scoring_graph(facts: Mapping[str, Any], weights: Mapping[str, FloatArray]) -> onnx.ModelProto:
    """Return the graph of a model by what GGUF says of it; matrices are int8.

    Inputs: int64 `tokens` [T] and `positions` [1, T]; float32 `mask` [T, T], 0 where a token sees
    another and otherwise -inf; int64 `sources` [S], tokens that others follow; int64 `targets` [E,
    2], each the place of one in `sources` and a token that follows. Output: `log_probs` [E] of
    these, float32.
    """
    graph = Graph()
    heads, groups, layers, rotated = (
        facts[f"llama.{name}"]
        for name in (
            *("attention.head_count", "attention.head_count_kv"),
            *("block_count", "rope.dimension_count"),
        )
    )
    epsilon = facts["llama.attention.layer_norm_rms_epsilon"]
    tokens, positions, sources, targets = (
        graph.takes(name, *shape, kind=TensorProto.INT64)
        for name, shape in (
            *(("tokens", ["T"]), ("positions", [1, "T"])),
            *(("sources", ["S"]), ("targets", ["E", 2])),
        )
    )
    # Queries of the heads that share keys stand one after the other.
    masks = graph.op("Concat", *[graph.takes("mask", "T", "T")] * (heads // groups), axis=0)
    embedding = weights["token_embd.weight"]
    size = embedding.shape[1]
    head = size // heads
    frequencies = facts["llama.rope.freq_base"] ** (-np.arange(0, rotated, 2) / rotated)
    angles = np.arange(MAX_POSITIONS)[:, None] * frequencies
    rotary = [graph.array(wave(angles).astype(np.float32)) for wave in (np.cos, np.sin)]

    def linear(value: str, *names: str) -> str:
        joined = np.concatenate([weights[f"{name}.weight"] for name in names])
        return graph.product_by_row(value, joined.T)

    def added(value: str, more: str, norm: str) -> tuple[str, str]:
        inputs = (value, more, graph.array(weights[f"{norm}.weight"]))
        kind = "SkipSimplifiedLayerNormalization"
        normed, _, _, total = graph.ops(4, kind, *inputs, domain=MICROSOFT, epsilon=epsilon)
        return total, normed

    value = graph.rows(embedding, tokens)
    value = graph.op("Unsqueeze", value, graph.ints(0))
    first = graph.array(weights["blk.0.attn_norm.weight"])
    normed = graph.op("SimplifiedLayerNormalization", value, first, axis=-1, epsilon=epsilon)
    for layer in range(layers):
        own = f"blk.{layer}."
        joined = linear(normed, *(f"{own}attn_{name}" for name in "qkv"))
        sizes = graph.ints(size, groups * head, groups * head)
        query, key, values = graph.ops(3, "Split", joined, sizes, axis=-1)
        # GGUF has them in the order of interleaved rotary positions.
        query, key = (
            graph.op(
                "RotaryEmbedding",
                *(item, positions, *rotary),
                domain=MICROSOFT,
                interleaved=1,
                num_heads=count,
                rotary_embedding_dim=rotated,
            )
            for item, count in ((query, heads), (key, groups))
        )
        query = graph.op("Reshape", query, graph.ints(-1, groups, heads // groups, head))
        query = graph.op("Transpose", query, perm=[1, 2, 0, 3])
        query = graph.op("Reshape", query, graph.ints(groups, -1, head))
        key, values = (
            graph.op("Transpose", graph.op("Reshape", item, graph.ints(-1, groups, head)), perm=to)
            for item, to in ((key, [1, 2, 0]), (values, [1, 0, 2]))
        )
        scores = graph.op("MatMul", query, key)
        scores = graph.op("Mul", scores, graph.array(np.array(head**-0.5, np.float32)))
        seen = graph.op("Softmax", graph.op("Add", scores, masks), axis=-1)
        seen = graph.op("MatMul", seen, values)
        seen = graph.op("Reshape", seen, graph.ints(groups, heads // groups, -1, head))
        seen = graph.op("Transpose", seen, perm=[2, 0, 1, 3])
        seen = graph.op("Reshape", seen, graph.ints(1, -1, size))
        value, normed = added(value, linear(seen, f"{own}attn_output"), f"{own}ffn_norm")
        gate, up = linear(normed, f"{own}ffn_gate"), linear(normed, f"{own}ffn_up")
        wide = graph.op("Mul", graph.op("Mul", gate, graph.op("Sigmoid", gate)), up)
        following = f"blk.{layer + 1}.attn_norm" if layer + 1 < layers else "output_norm"
        value, normed = added(value, linear(wide, f"{own}ffn_down"), following)
    wanted = graph.op("Gather", graph.op("Squeeze", normed, graph.ints(0)), sources)
    projection = "output" if "output.weight" in weights else "token_embd"
    log_probs = graph.op("LogSoftmax", linear(wanted, projection), axis=-1)
    graph.gives(graph.op("GatherND", log_probs, targets), "log_probs", "E")
    return graph.model("llama")
