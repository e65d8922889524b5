"""GGUF files of tiny models with random weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from tokenizers.pre_tokenizers import ByteLevel

END_OF_TEXT = "<|endoftext|>"
TOKENS = [END_OF_TEXT, *sorted(ByteLevel.alphabet()), "th", "the"]
LAYERS, WIDTH, HEADS, KEY_HEADS, HIDDEN = 2, 32, 4, 2, 64


def write_toy(
    path: Path,
    *,
    architecture: str = "llama",
    pre: str = "smollm",
    facts: Mapping[str, float] | None = None,
    without: str = "",
    more: str = "",
) -> None:
    """Write a model.

    Args:
        path: of the file.
        architecture: its name in the file.
        pre: name of the pre-tokenizer.
        facts: further ones.
        without: a weight that is left out.
        more: a weight that no Llama has.
    """
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    for name, value in (facts or {}).items():
        writer.add_float32(name, value)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(TOKENS)
    writer.add_token_merges(["t h", "th e"])
    writer.add_unk_token_id(0)
    for name, weight in weights().items():
        if name != without:
            writer.add_tensor(name, weight)
    if more:
        writer.add_tensor(more, np.zeros(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def weights() -> dict[str, Any]:
    """Return the weights by their names; the same ones at each call."""
    random = np.random.default_rng(5)
    keys = WIDTH * KEY_HEADS // HEADS
    shapes = {"token_embd.weight": (len(TOKENS), WIDTH), "output_norm.weight": (WIDTH,)}
    for layer in range(LAYERS):
        for name, shape in {
            "attn_norm": (WIDTH,),
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (keys, WIDTH),
            "attn_v": (keys, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_norm": (WIDTH,),
            "ffn_gate": (HIDDEN, WIDTH),
            "ffn_up": (HIDDEN, WIDTH),
            "ffn_down": (WIDTH, HIDDEN),
        }.items():
            shapes[f"blk.{layer}.{name}.weight"] = shape
    return {name: random.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
