"""Conversion of tiny models, which tells what is another model than it takes it for."""

import ctranslate2
import numpy as np
import pytest
import tokenizers
from neural import noise_share

gguf_toys = pytest.importorskip("gguf_toys", reason="gguf is not installed")

from conch.families.smollm2.gguf_model import convert_gguf  # noqa: E402
from conch.wire.errors import ConfigError  # noqa: E402

WIDTH, HEADS, KEY_HEADS = gguf_toys.WIDTH, gguf_toys.HEADS, gguf_toys.KEY_HEADS
TEXT = "the other thing"


@pytest.fixture
def convert(tmp_path):
    def converted(quantization="float32", end_of_text=gguf_toys.END_OF_TEXT, **changes):
        source, folder = tmp_path / "toy.gguf", tmp_path / "toy"
        gguf_toys.write_toy(source, **changes)
        convert_gguf(source, folder, quantization=quantization, end_of_text=end_of_text)
        return folder

    return converted


def tokens_of(folder, text):
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).tokens


def log_probs(tokens):
    """Return each token's log probability but the first's by the toy, computed by numpy.

    Rotary positions turn neighbours, as in the order in which GGUF has queries and keys.
    """
    weights = gguf_toys.weights()
    ids = [gguf_toys.TOKENS.index(token) for token in tokens]
    size = WIDTH // HEADS
    angles = np.arange(len(ids))[:, None] * 10_000.0 ** (-np.arange(0, size, 2) / size)
    turn = np.exp(1j * angles)[:, None]

    def norm(x, gamma):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * gamma

    def turned(x, heads):
        pairs = x.reshape(len(ids), heads, size // 2, 2)
        found = (pairs[..., 0] + 1j * pairs[..., 1]) * turn
        return np.stack([found.real, found.imag], -1).reshape(len(ids), heads, size)

    x = weights["token_embd.weight"][ids].astype(float)
    for layer in range(gguf_toys.LAYERS):
        own = {
            name.split(".")[2]: weight
            for name, weight in weights.items()
            if name.startswith(f"blk.{layer}.")
        }
        h = norm(x, own["attn_norm"])
        queries = turned(h @ own["attn_q"].T, HEADS)
        keys = turned(h @ own["attn_k"].T, KEY_HEADS).repeat(HEADS // KEY_HEADS, 1)
        values = (h @ own["attn_v"].T).reshape(len(ids), KEY_HEADS, size)
        values = values.repeat(HEADS // KEY_HEADS, 1)
        logits = np.einsum("qhd,khd->hqk", queries, keys) / np.sqrt(size)
        logits[:, np.triu_indices(len(ids), 1)[0], np.triu_indices(len(ids), 1)[1]] = -np.inf
        attention = np.exp(logits - np.logaddexp.reduce(logits, -1, keepdims=True))
        mixed = np.einsum("hqk,khd->qhd", attention, values).reshape(len(ids), WIDTH)
        x = x + mixed @ own["attn_output"].T
        h = norm(x, own["ffn_norm"])
        gate = h @ own["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ own["ffn_up"].T)) @ own["ffn_down"].T
    logits = norm(x, weights["output_norm.weight"]) @ weights["token_embd.weight"].T
    found = logits - np.logaddexp.reduce(logits, -1, keepdims=True)
    return [found[place, token] for place, token in enumerate(ids[1:])]


def scores_and_reference(folder, quantization):
    tokens = [gguf_toys.END_OF_TEXT, *tokens_of(folder, TEXT)]
    model = ctranslate2.Generator(str(folder), compute_type=quantization)
    (result,) = model.score_batch([tokens])
    return result.log_probs, log_probs(tokens)


def test_the_converted_model_computes_what_the_file_says(convert):
    found, expected = scores_and_reference(convert(), "float32")
    assert found == pytest.approx(expected, abs=1e-4)


def test_int8_weights_tell_tokens_apart_as_the_files_do(convert):
    found, expected = scores_and_reference(convert("int8"), "int8")
    assert noise_share(found, expected) < 0.5


def test_digits_are_alone_and_no_text_holds_a_special_token(convert):
    folder = convert()
    assert tokens_of(folder, "the 12") == ["the", "Ġ", "1", "2"]
    assert tokens_of(folder, gguf_toys.END_OF_TEXT)[:2] == ["<", "|"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": "qwen2"}, "general.architecture must be llama; is: qwen2"),
        ({"pre": "llama-bpe"}, "tokenizer.ggml.pre must be smollm; is: llama-bpe"),
        ({"facts": {"llama.rope.scaling.factor": 8}}, "llama.rope.scaling.factor is not supported"),
        ({"without": "blk.1.ffn_up.weight"}, "blk.1.ffn_up.weight"),
        ({"more": "rope_freqs.weight"}, "of another architecture: rope_freqs.weight"),
        ({"end_of_text": "</s>"}, "has no token </s>"),
        ({"quantization": "int4"}, "int4 is not a valid quantization"),
    ],
)
def test_what_would_be_another_model_is_refused(convert, tmp_path, changes, message):
    with pytest.raises(ConfigError, match=rf"cannot convert .*toy\.gguf: .*{message}"):
        convert(**changes)
    assert not (tmp_path / "toy").exists()


@pytest.mark.parametrize("content", [b"", b"GGUF", b"no model at all"])
def test_a_broken_file_is_named(tmp_path, content):
    source = tmp_path / "broken.gguf"
    source.write_bytes(content)
    with pytest.raises(ConfigError, match=r"cannot convert the language model .*broken\.gguf"):
        convert_gguf(source, tmp_path / "toy", quantization="int8", end_of_text="</s>")
