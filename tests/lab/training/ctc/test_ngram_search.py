"""The search follows the n-gram where the sound leaves it a choice."""

import numpy as np
import pytest

from conch.families.ctc.units import Characters
from conch.families.ngram.model import LanguageModelConfig
from lab.training.ctc.units import learned_subwords

pytest.importorskip("pyctcdecode")

from lab.training.ctc.ngram_search import NgramSearch

ARPA = """\\data\\
ngram 1=5
ngram 2=1

\\1-grams:
-1.0	<s>	0.0
-1.0	</s>
-0.5	cat	0.0
-2.0	cot	0.0
-1.0	sat	0.0

\\2-grams:
-0.1	cat sat

\\end\\
"""


@pytest.fixture
def arpa(tmp_path):
    path = tmp_path / "small.arpa"
    path.write_text(ARPA)
    return path


def probabilities(units, alternatives: list[dict[str, float]]) -> np.ndarray:
    """Frames that are sure of nothing but these units; blanks between them."""
    log_probs = np.full((2 * len(alternatives), len(units.vocab)), -15.0, np.float32)
    log_probs[1::2, 0] = 0.0
    for frame, chances in enumerate(alternatives):
        for text, chance in chances.items():
            log_probs[2 * frame, units.vocab.index(text)] = np.log(chance)
    return log_probs


def test_search_prefers_the_likelier_word(arpa):
    units = Characters()
    frames = [{item: 1.0} for item in "cat sat"]
    frames[1] = {"a": 0.4, "o": 0.6}
    found = []
    for weight in (0.01, 1.0):
        config = LanguageModelConfig(model=str(arpa))
        search = NgramSearch(units.vocab, config, lm_weight=weight, word_bonus=0.0, beam_size=10)
        found.append(search(probabilities(units, frames)))
    assert found == ["cot sat", "cat sat"]


def test_subwords_make_words(arpa):
    units = learned_subwords(["cat sat", "cot sat"], 14)
    pieces = [units.vocab[index] for index in units.encode("cat sat")]
    config = LanguageModelConfig(model=str(arpa))
    search = NgramSearch(units.vocab, config, lm_weight=0.5, word_bonus=0.0, beam_size=10)
    assert search(probabilities(units, [{piece: 1.0} for piece in pieces])) == "cat sat"
