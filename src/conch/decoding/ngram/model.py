"""N-gram language models that score sentences: in arrays, or by KenLM."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from conch.cache import Arrays, cached_arrays, digest_of
from conch.component.parameters import existing
from conch.decoding.ngram.files import read_ngrams
from conch.decoding.ngram.table import SENTENCE_END, SENTENCE_START, NgramTable
from conch.packaged import install
from conch.wire.errors import ConfigError

SHIPPED = Path(__file__).parent / "weights" / "en-us.npz"
"""CMU's en-us trigram."""
_VERSION = 1
"""Version of `ngram_lookup` in the cache; raise it with every change of what that holds."""


class LanguageModel(Protocol):
    def score(self, words: Sequence[str]) -> float:
        """Return the natural log probability of the words and of the sentence's end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModelConfig:
    model: str = ""
    """ARPA or KenLM's binary file; empty is the en-us trigram that comes with Conch."""
    engine: str = "numpy"
    """numpy, for ARPA, gzipped or not; or kenlm, for ARPA and KenLM's binaries."""
    oov_log_prob: float = -16.0
    """Natural log probability of a word that the model does not know."""


def ngram_lookup(ngrams: NgramTable) -> dict[str, NDArray[Any]]:
    """Return the arrays of an `NgramModel`: 16 bytes for each n-gram.

    `words` are uint8, UTF-8, a line each. For each order N there are `log_probs{N}`, float32; but
    for the longest, `backoffs{N}`, float32; but for the first, `keys{N}` of `NgramTable.keys`.
    """
    lookup: dict[str, NDArray[Any]] = {
        "words": np.frombuffer("\n".join(ngrams.words).encode(), np.uint8)
    }
    for number, order in enumerate(ngrams.orders, start=1):
        lookup[f"log_probs{number}"] = order.log_probs.astype(np.float32)
        if number > 1:
            lookup[f"keys{number}"] = ngrams.keys(number)
        if number < len(ngrams.orders):
            lookup[f"backoffs{number}"] = order.backoffs.astype(np.float32)
    return lookup


Context: TypeAlias = tuple[int, ...]
"""The n-grams that end with the words so far, as rows of their orders, unigrams first; -1 where the
model has none."""


class NgramModel:
    def __init__(self, lookup: Arrays, oov_log_prob: float) -> None:
        words = lookup["words"].tobytes().decode().split("\n")
        self._ids = {word: index for index, word in enumerate(words)}
        longest = sum(name.startswith("log_probs") for name in lookup)
        self._keys = [lookup[f"keys{order}"] for order in range(2, longest + 1)]
        self._log_probs = [lookup[f"log_probs{order}"] for order in range(1, longest + 1)]
        self._backoffs = [lookup[f"backoffs{order}"] for order in range(1, longest)]
        self.oov_log_prob = oov_log_prob
        self.start = self.after((-1,) * len(self._backoffs), SENTENCE_START)[1]
        """Context at the start of a sentence."""

    @property
    def words(self) -> Iterable[str]:
        """Every word, with `<s>` and `</s>`."""
        return self._ids

    def score(self, words: Sequence[str]) -> float:
        total, context = 0.0, self.start
        for word in (*words, SENTENCE_END):
            log_prob, context = self.after(context, word)
            total += log_prob
        return total

    def after(self, context: Context, word: str) -> tuple[float, Context]:
        """Return the natural log probability of a word, and where it leads.

        A word that is not known is a history to none.
        """
        row = self._ids.get(word, -1)
        if row < 0:
            return self.oov_log_prob, (-1,) * len(context)
        word_id, score, after = row, float(self._log_probs[0][row]), []
        for number, history in enumerate(context):
            after.append(row)
            row = -1
            if history >= 0:
                keys, wanted = self._keys[number], history * len(self._ids) + word_id
                index = int(keys.searchsorted(wanted))
                if index < len(keys) and keys[index] == wanted:
                    row, score = index, float(self._log_probs[number + 1][index])
                else:
                    score += float(self._backoffs[number][history])
        return score, tuple(after)


class KenlmModel:
    """An n-gram read by KenLM (Heafield, 2011): ARPA or its binaries."""

    def __init__(self, path: Path, oov_log_prob: float) -> None:
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
    path = model_path(config.model)
    if config.engine == "numpy":
        name = f"ngrams-{digest_of(path)}-{_VERSION}"
        lookup = cached_arrays(name, "the n-grams", lambda: ngram_lookup(read_ngrams(path)))
        return NgramModel(lookup, config.oov_log_prob)
    if config.engine == "kenlm":
        return KenlmModel(path, config.oov_log_prob)
    raise ConfigError(f"engine must be numpy or kenlm; is: {config.engine!r}")


def model_path(model: str) -> Path:
    """Return the path of the model's file; `model` is empty for the shipped one."""
    return existing(Path(model) if model else SHIPPED, "the language model")
