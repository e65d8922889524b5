"""Convert a language model from GGUF, the format of llama.cpp, to a folder for CTranslate2.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tokenizers
from ctranslate2 import specs
from tokenizers import decoders, models, pre_tokenizers

from conch.component.arrays import FloatArray
from conch.families.smollm2.declaration import GRAPH
from conch.families.smollm2.graph import scoring_graph
from conch.packaged import install
from conch.wire.errors import ConfigError

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
        import gguf
    except ImportError as error:
        raise ConfigError(f"a GGUF file needs gguf; {install('server')}") from error
    try:
        reader = gguf.GGUFReader(source)
        facts = {name: field.contents() for name, field in reader.fields.items()}
        _check_kind(facts)
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


def _check_kind(facts: Mapping[str, Any]) -> None:
    """Refuse, by a `ValueError`, what would be converted into another model than it is."""
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
        own = {
            name: weights.pop(f"blk.{number}.{name}.weight")
            for name in (
                *("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output"),
                *("ffn_norm", "ffn_gate", "ffn_up", "ffn_down"),
            )
        }
        layer.self_attention.layer_norm.gamma = own["attn_norm"]
        queries_keys_values, output = layer.self_attention.linear
        queries_keys_values.weight = np.concatenate([own["attn_q"], own["attn_k"], own["attn_v"]])
        output.weight = own["attn_output"]
        layer.ffn.layer_norm.gamma = own["ffn_norm"]
        layer.ffn.linear_0.weight = own["ffn_gate"]
        layer.ffn.linear_0_noact.weight = own["ffn_up"]
        layer.ffn.linear_1.weight = own["ffn_down"]
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
