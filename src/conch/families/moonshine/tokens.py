"""Moonshine's tokens: those of Llama 2, with English alone in use."""

from collections.abc import Sequence
from pathlib import Path

import tokenizers
from tokenizers import decoders

from conch.wire.errors import ConfigError

START, END = 1, 2
_SIZE = 32768


class MoonshineTokens:
    def __init__(self, path: Path) -> None:
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises nothing more precise
            raise ConfigError(f"{path} is no tokenizer: {error}") from error
        if (size := self._tokenizer.get_vocab_size()) != _SIZE:
            raise ConfigError(f"{path} is not Moonshine's: it has {size} tokens, not {_SIZE}")
        # A text with </s> in it has no end there.
        self._tokenizer.encode_special_tokens = True
        # That of the file takes the space from the first token, where a word begins.
        self._tokenizer.decoder = decoders.Sequence(
            [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
        )

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, with a space before a word that they begin with."""
        return str(self._tokenizer.decode(list(ids)))

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, without start and end."""
        return list(self._tokenizer.encode(text.strip(), add_special_tokens=False).ids)
