"""N-gram language models, read by pocketsphinx or KenLM."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from conch.packaged import install, packaged
from conch.wire.errors import ConfigError


class LanguageModel(Protocol):
    """A model of the probability of sentences."""

    def score(self, words: Sequence[str]) -> float:
        """Return the natural log probability of the words and of the sentence's end."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModelConfig:
    """The language model to load."""

    model: str = ""
    """ARPA or binary file; empty is the en-us trigram in the pocketsphinx package."""
    engine: str = "pocketsphinx"
    """pocketsphinx, for ARPA and its own .lm.bin; or kenlm, for ARPA and KenLM's binaries."""
    oov_log_prob: float = -16.0
    """Natural log probability of a word that the model does not know."""


class PocketsphinxModel:
    """An n-gram read by pocketsphinx: ARPA, DMP or its `.lm.bin`."""

    _LOG_BASE = math.log(1.0001)
    """Natural log of pocketsphinx's base; its scores are integers."""
    _IMPOSSIBLE = -(2**29)
    """pocketsphinx's log probability of a word that the model does not know."""

    def __init__(self, path: Path, oov_log_prob: float) -> None:
        """Read the file.

        Raises:
            ConfigError: pocketsphinx is not installed or refuses the file.
        """
        try:
            import pocketsphinx
        except ImportError as error:
            raise ConfigError("engine 'pocketsphinx' needs: pip install pocketsphinx") from error
        pocketsphinx.set_loglevel("FATAL")  # else it writes hundreds of lines to the server's log
        try:
            self._model = pocketsphinx.NGramModel.readfile(str(path))
        except (RuntimeError, ValueError) as error:
            raise ConfigError(f"pocketsphinx cannot read the language model {path}") from error
        self._order: int = self._model.size()
        self._oov_log_prob = oov_log_prob

    def score(self, words: Sequence[str]) -> float:
        total = 0.0
        newest_first = ["<s>"]  # the history
        for word in (*words, "</s>"):
            total += self.word_score(word, newest_first)
            newest_first.insert(0, word)
        return total

    def word_score(self, word: str, newest_first: Sequence[str]) -> float:
        """Return the natural log probability of a word after others, which come newest first."""
        log_prob = self._model.prob([word, *newest_first[: self._order - 1]])
        if log_prob <= self._IMPOSSIBLE:
            return self._oov_log_prob
        return float(log_prob * self._LOG_BASE)


class KenlmModel:
    """An n-gram read by KenLM (Heafield, 2011): ARPA or its binaries."""

    def __init__(self, path: Path, oov_log_prob: float) -> None:
        """Read the file.

        Raises:
            ConfigError: kenlm is not installed or refuses the file.
        """
        try:
            import kenlm
        except ImportError as error:
            raise ConfigError(f"engine 'kenlm' needs kenlm; {install('kenlm')}") from error
        config = kenlm.Config()
        config.show_progress = False
        try:
            self._model = kenlm.Model(str(path), config)
        except (OSError, RuntimeError) as error:
            raise ConfigError(f"KenLM cannot read the language model {path}: {error}") from error
        self._oov_log_prob = oov_log_prob

    def score(self, words: Sequence[str]) -> float:
        scores = self._model.full_scores(" ".join(words), bos=True, eos=True)
        return sum(
            self._oov_log_prob if is_unknown else log10_prob * math.log(10)
            for log10_prob, _, is_unknown in scores
        )


def load_language_model(config: LanguageModelConfig) -> LanguageModel:
    """Load a language model.

    Raises:
        ConfigError: the file is missing or broken, or the engine is unknown or cannot read it.
    """
    path = model_path(config.model)
    if config.engine == "pocketsphinx":
        return PocketsphinxModel(path, config.oov_log_prob)
    if config.engine == "kenlm":
        return KenlmModel(path, config.oov_log_prob)
    raise ConfigError(f"engine must be pocketsphinx or kenlm; is: {config.engine!r}")


def model_path(model: str) -> Path:
    """Return the path of the model's file.

    Raises:
        ConfigError: the file does not exist.
    """
    if model:
        path = Path(model)
    else:
        file = ("model", "en-us", "en-us.lm.bin")
        path = packaged("language model", "pocketsphinx", "pocketsphinx", *file)
    if not path.is_file():
        raise ConfigError(f"the language model {path} does not exist")
    return path
