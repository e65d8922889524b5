"""Folders in CTranslate2's format with the fewest bytes that pass for a Whisper."""

import json
import struct
from collections.abc import Sequence
from pathlib import Path

ENGLISH_TOKENS = ("!", "<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>")
MULTILINGUAL = 51865
"""Least tokens of a multilingual Whisper."""


def _text(text: str) -> bytes:
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def model_bin(tokens: int, spec: str = "WhisperSpec") -> bytes:
    """Return a model.bin with embeddings of one number for each token, and an alias."""
    data = struct.pack("<I", 6) + _text(spec) + struct.pack("<II", 3, 1)
    data += _text("decoder/embeddings/weight") + struct.pack("<BIIBI", 2, tokens, 1, 1, tokens)
    data += bytes(tokens)
    return (
        data
        + struct.pack("<I", 1)
        + _text("decoder/projection/weight")
        + _text("decoder/embeddings/weight")
    )


def whisper_toy(folder: Path, tokens: Sequence[str] = ENGLISH_TOKENS) -> Path:
    """Write a folder; with `MULTILINGUAL` tokens it is a multilingual model."""
    folder.mkdir(parents=True)
    (folder / "model.bin").write_bytes(model_bin(len(tokens)))
    (folder / "config.json").write_text("{}")
    (folder / "vocabulary.json").write_text(json.dumps(list(tokens)))
    added = [
        {"content": token, "id": place}
        for place, token in enumerate(tokens)
        if token.startswith("<|")
    ]
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
    return folder
