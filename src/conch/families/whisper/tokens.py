"""Tokens of Whisper: prompts, texts and languages of a model."""

import re
from collections.abc import Sequence
from pathlib import Path

import tokenizers

from conch.catalogue.checks import read_text
from conch.wire.errors import ConfigError, OptionError
from conch.wire.languages import known_to

_LANGUAGE_TOKEN = re.compile(r"<\|([a-z]{2,3})\|>")
MAX_PROMPT_TOKENS = 223
"""Tokens before a transcript that Whisper was trained with: half its positions, less one."""
TASKS = ("transcribe", "translate")
_ENGLISH_ONLY = "this model knows English only; conch serve --whisper base serves 99 languages"
_NEEDED = ("<|startoftranscript|>", "<|startofprev|>", "<|notimestamps|>", "<|endoftext|>")
_UNSPACED_LANGUAGES = frozenset({"zh", "ja", "th", "lo", "my", "yue"})


class WhisperTokens:
    def __init__(self, folder: Path, *, multilingual: bool) -> None:
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise ConfigError(f"'{folder}' has no tokenizer.json")
        self._tokenizer = tokenizers.Tokenizer.from_str(read_text(path))
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
        if language != "auto":
            self._check_known("language", language, "auto or ")

    def check_choice(self, languages: Sequence[str]) -> None:
        takes = "codes with commas, each " if self.multilingual else ""
        for language in languages:
            self._check_known("languages", language, takes)

    def _check_known(self, option: str, language: str, takes: str) -> None:
        if language in self.languages:
            return
        known = known_to(self.languages, language) if self.multilingual else f"en: {_ENGLISH_ONLY}"
        raise OptionError(f"option '{option}' takes {takes}{known}; sent: {language!r:.40}")

    def check_task(self, task: str) -> None:
        if task not in TASKS:
            raise OptionError(f"option 'task' takes {' or '.join(TASKS)}; sent: {task!r:.40}")
        if task == "translate" and not (self.multilingual and "<|translate|>" in self._ids):
            raise OptionError(f"option 'task' takes transcribe: {_ENGLISH_ONLY}; sent: 'translate'")

    def start_sequence(self, language: str, task: str = "transcribe") -> list[int]:
        """Return the tokens that ask for a text of speech in a language; `task` as of TASKS."""
        sequence = ["<|startoftranscript|>"]
        if self.multilingual:
            sequence += [f"<|{language}|>", f"<|{task}|>"]
        return [self._ids[token] for token in sequence]

    def prompt(
        self, language: str, before: Sequence[int] = (), task: str = "transcribe"
    ) -> list[int]:
        """Return the start sequence for a text without timestamps, after the tokens of `before`."""
        sequence = [*self.start_sequence(language, task), self._ids["<|notimestamps|>"]]
        return [self._ids["<|startofprev|>"], *before, *sequence] if before else sequence

    def before(self, text: str) -> list[int]:
        """Return the tokens of the text before a transcript.

        As in openai-whisper, a space is in front. There a long text loses its beginning silently.
        """
        if not text.strip():
            return []
        tokens = self._tokenizer.encode(f" {text.strip()}", add_special_tokens=False).ids
        if len(tokens) > MAX_PROMPT_TOKENS:
            raise OptionError(
                f"option 'prompt' takes at most {MAX_PROMPT_TOKENS} of Whisper's tokens, about "
                f"{MAX_PROMPT_TOKENS * 4} English characters; sent: {len(tokens)} in {len(text)} "
                "characters"
            )
        return list(tokens)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without special tokens."""
        return str(self._tokenizer.decode([item for item in tokens if item < self.end_of_text]))

    def encode(self, text: str, language: str) -> list[int]:
        """Return the tokens of a text, with a leading space if the language has spaces."""
        spaced = f" {text.strip()}" if self.is_spaced(language) else text.strip()
        return list(self._tokenizer.encode(spaced, add_special_tokens=False).ids)

    @staticmethod
    def is_spaced(language: str) -> bool:
        return language not in _UNSPACED_LANGUAGES
