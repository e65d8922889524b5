"""Convert a language model from GGUF, the format of llama.cpp, for CTranslate2 and ONNX Runtime.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import onnx
import tokenizers
from ctranslate2 import specs
from onnx import TensorProto
from tokenizers import decoders, models, pre_tokenizers

from conch.component import FloatArray
from conch.component.graph import MICROSOFT, Graph
from conch.families.smollm2 import GRAPH
from conch.wire.errors import ConfigError

MAX_POSITIONS = 8192
"""Tokens of the longest text: SmolLM2 has learned no more."""
_EXPECTED = {
    "general.architecture": "llama",
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
}
_EMBEDDING, _PROJECTION, _LAST_NORM = "token_embd.weight", "output.weight", "output_norm.weight"


def convert_gguf(source: Path, folder: Path, *, quantization: str, end_of_text: str) -> None:
    """Write model.bin, config.json, the vocabulary and tokenizer.json of a model into a new folder.

    With int8 they come with the graph for a CPU.

    `source` is a GGUF file of a model of architecture llama, with SmolLM's tokenizer.
    `quantization` is a compute type of CTranslate2, as float32 or int8. `end_of_text` is the token
    between the texts that the model learned from; config.json gets it as the one before a text and
    behind it, in place of those of a chat.
    """
    try:
        reader = gguf.GGUFReader(source)
        facts = {name: field.contents() for name, field in reader.fields.items()}
        _check_architecture(facts)
        weights = {
            tensor.name: gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            for tensor in reader.tensors
        }
        graph = scoring_graph(facts, weights) if quantization == "int8" else None
        spec = _spec(facts, weights, end_of_text)
        spec.validate()
        spec.optimize(quantization=quantization)
    except (IndexError, KeyError, NotImplementedError, OSError, ValueError) as error:
        raise ConfigError(f"cannot convert the language model {source}: {error}") from error
    folder.mkdir()
    spec.save(str(folder))
    if graph:
        onnx.save(graph, folder / GRAPH)
    _tokenizer(facts).save(str(folder / "tokenizer.json"))


def _check_architecture(facts: Mapping[str, Any]) -> None:
    """Raise a `ValueError` for a model that would be converted into another one."""
    for name, expected in _EXPECTED.items():
        if facts.get(name) != expected:
            raise ValueError(f"{name} must be {expected}; is: {facts.get(name)}")
    for name in facts:
        if name.startswith(("llama.rope.scaling.", "llama.expert_")):
            raise ValueError(f"{name} is not supported")


def _spec(
    facts: Mapping[str, Any], weights: dict[str, FloatArray], end_of_text: str
) -> specs.TransformerDecoderModelSpec:
    """Return the model with its weights, which are taken out of `weights`.

    A weight or a fact that is missing is a `KeyError`, a weight that is left over a `ValueError`.
    """
    # GGUF has the rows of queries and keys in the order of interleaved rotary positions.
    spec = specs.TransformerDecoderModelSpec.from_config(
        facts["llama.block_count"],
        facts["llama.attention.head_count"],
        activation=specs.Activation.SWISH,
        ffn_glu=True,
        rms_norm=True,
        rotary_dim=facts["llama.rope.dimension_count"],
        rotary_interleave=True,
        rotary_base=facts["llama.rope.freq_base"],
        num_heads_kv=facts["llama.attention.head_count_kv"],
    )
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = weights.pop(_EMBEDDING)
    decoder.projection.weight = weights.pop(_PROJECTION, decoder.embeddings.weight)
    decoder.layer_norm.gamma = weights.pop(_LAST_NORM)
    for number, layer in enumerate(decoder.layer):
        own = f"blk.{number}."
        joined = [weights.pop(f"{own}attn_{name}.weight") for name in "qkv"]
        queries_keys_values, output = layer.self_attention.linear
        queries_keys_values.weight = np.concatenate(joined)
        output.weight = weights.pop(f"{own}attn_output.weight")
        layer.self_attention.layer_norm.gamma = weights.pop(f"{own}attn_norm.weight")
        layer.ffn.layer_norm.gamma = weights.pop(f"{own}ffn_norm.weight")
        layer.ffn.linear_0.weight = weights.pop(f"{own}ffn_gate.weight")
        layer.ffn.linear_0_noact.weight = weights.pop(f"{own}ffn_up.weight")
        layer.ffn.linear_1.weight = weights.pop(f"{own}ffn_down.weight")
    if weights:
        raise ValueError(f"it has weights of another architecture: {', '.join(sorted(weights))}")
    tokens = facts["tokenizer.ggml.tokens"]
    if end_of_text not in tokens:
        raise ValueError(f"its vocabulary has no token {end_of_text}")
    spec.register_vocabulary(tokens)
    spec.config.bos_token = spec.config.eos_token = end_of_text
    spec.config.unk_token = tokens[facts["tokenizer.ggml.unknown_token_id"]]
    spec.config.layer_norm_epsilon = facts["llama.attention.layer_norm_rms_epsilon"]
    return spec


def _tokenizer(facts: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Return SmolLM's tokenizer, for which no text holds a special token.

    It is that of GPT-2 (Radford et al., 2019, 2.2), but each digit is a token.
    """
    vocabulary = {token: index for index, token in enumerate(facts["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split(" ")) for merge in facts["tokenizer.ggml.merges"]]
    tokenizer = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def scoring_graph(facts: Mapping[str, Any], weights: Mapping[str, FloatArray]) -> onnx.ModelProto:
    """Return the graph of a model by what GGUF says of it; matrices are int8.

    It reads a tree of tokens in one call, so that texts of one list share what they begin with.

    Inputs: int64 `tokens` [T] and `positions` [1, T]; float32 `mask` [T, T], 0 where a token sees
    another and otherwise -inf; int64 `sources` [S], tokens that others follow; int64 `targets` [E,
    2], each the place of one in `sources` and a token that follows. Output: `log_probs` [E] of
    these, float32.
    """
    graph = Graph()
    heads, groups = (facts[f"llama.attention.head_count{kind}"] for kind in ("", "_kv"))
    layers, rotated = facts["llama.block_count"], facts["llama.rope.dimension_count"]
    epsilon = facts["llama.attention.layer_norm_rms_epsilon"]
    takes = partial(graph.takes, elem_type=TensorProto.INT64)
    tokens, positions = takes("tokens", "T"), takes("positions", 1, "T")
    sources, targets = takes("sources", "S"), takes("targets", "E", 2)
    # Queries of the heads that share keys stand one after the other.
    masks = graph.op("Concat", *[graph.takes("mask", "T", "T")] * (heads // groups), axis=0)
    embedding = weights["token_embd.weight"]
    size = embedding.shape[1]
    head = size // heads
    rotary = graph.rotary(MAX_POSITIONS, rotated, facts["llama.rope.freq_base"])

    def linear(value: str, *names: str) -> str:
        joined = np.concatenate([weights[f"{name}.weight"] for name in names])
        return graph.product_by_row(value, joined.T)

    def added(value: str, more: str, norm: str) -> tuple[str, str]:
        inputs = (value, more, graph.array(weights[f"{norm}.weight"]))
        op_type = "SkipSimplifiedLayerNormalization"
        normed, _, _, total = graph.ops(4, op_type, *inputs, domain=MICROSOFT, epsilon=epsilon)
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
            graph.turned(item, positions, rotary, rotated, count)
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
