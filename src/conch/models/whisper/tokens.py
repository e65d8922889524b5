"""Tokens of Whisper: prompts, texts and languages of a model."""

import re
from collections.abc import Sequence
from pathlib import Path

import tokenizers

from conch.wire.errors import ConfigError, OptionError

_LANGUAGE_TOKEN = re.compile(r"<\|([a-z]{2,3})\|>")
MAX_PROMPT_TOKENS = 223
"""Tokens before a transcript that Whisper was trained with: half its positions, less one."""
_NEEDED = ("<|startoftranscript|>", "<|startofprev|>", "<|notimestamps|>", "<|endoftext|>")
_UNSPACED_LANGUAGES = frozenset({"zh", "ja", "th", "lo", "my", "yue"})


class WhisperTokens:
    """The vocabulary of one model."""

    def __init__(self, folder: Path, *, multilingual: bool) -> None:
        """Read `tokenizer.json` of a model folder.

        Raises:
            ConfigError: the file is missing or is not of a Whisper model.
        """
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise ConfigError(f"'{folder}' has no tokenizer.json")
        self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        ids: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        # All of them are 50,000 texts, which the tokenizer has already.
        self._ids = {token: index for token, index in ids.items() if token.startswith("<|")}
        self.multilingual = multilingual
        for token in _NEEDED:
            if token not in self._ids:
                raise ConfigError(f"{path} is not Whisper's: it has no {token}")
        self.end_of_text = self._ids["<|endoftext|>"]
        by_id = sorted(self._ids, key=lambda token: self._ids[token])  # most spoken first
        matches = (_LANGUAGE_TOKEN.fullmatch(token) for token in by_id)
        known = tuple(match[1] for match in matches if match)
        # An English-only model has tokens of other languages, but was not trained on them.
        self.languages = known if multilingual else ("en",)

    def check_language(self, language: str) -> None:
        """Check the option `language`.

        Raises:
            OptionError: the language is neither `auto` nor a language of the model.
        """
        if language == "auto" or language in self.languages:
            return
        if self.multilingual:
            some = ", ".join(self.languages[:8])
            known = f"auto or one of this model's {len(self.languages)} codes ({some}, …)"
        else:
            known = "auto or en: this model knows English only"
        raise OptionError(f"option 'language' takes {known}; sent: {language!r:.40}")

    def start_sequence(self, language: str) -> list[int]:
        """Return the tokens that ask for a transcript in a language."""
        sequence = ["<|startoftranscript|>"]
        if self.multilingual:
            sequence += [f"<|{language}|>", "<|transcribe|>"]
        return [self._ids[token] for token in sequence]

    def prompt(self, language: str, before: Sequence[int] = ()) -> list[int]:
        """Return the start sequence for a transcript without timestamps.

        Args:
            language: Language of the speech.
            before: Tokens of the text that the transcript goes on from; see `before`.
        """
        sequence = [*self.start_sequence(language), self._ids["<|notimestamps|>"]]
        return [self._ids["<|startofprev|>"], *before, *sequence] if before else sequence

    def before(self, text: str) -> list[int]:
        """Return the tokens of the text before a transcript.

        As in openai-whisper, a space is in front, and of a long text the last MAX_PROMPT_TOKENS
        tokens count.
        """
        tokens = self._tokenizer.encode(f" {text.strip()}", add_special_tokens=False).ids
        return list(tokens[-MAX_PROMPT_TOKENS:]) if text.strip() else []

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without special tokens."""
        return str(self._tokenizer.decode([item for item in tokens if item < self.end_of_text]))

    def encode(self, text: str, language: str) -> list[int]:
        """Return the tokens of a text, with a leading space if the language has spaces."""
        spaced = f" {text.strip()}" if self.is_spaced(language) else text.strip()
        return list(self._tokenizer.encode(spaced, add_special_tokens=False).ids)

    @staticmethod
    def is_spaced(language: str) -> bool:
        """Return whether the language has spaces between words."""
        return language not in _UNSPACED_LANGUAGES
