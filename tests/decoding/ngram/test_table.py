"""N-grams as arrays: read from ARPA, looked up, made fewer."""

import gzip
import math

import numpy as np
import pytest

from conch.decoding.ngram.files import read_ngrams
from conch.decoding.ngram.table import NgramTable
from conch.graphs.pruning import entropy_pruned, likeliest_words, of_order, of_words
from conch.wire.errors import ConfigError

ARPA = """made for a test

\\data\\
ngram 1=5
ngram 2=4
ngram 3=1

\\1-grams:
-99\t<s>\t-0.30103
-0.69897\t</s>
-0.39794\tcat\t-0.1
-0.69897\tcot\t0.0
-0.69897\tsat\t-0.2

\\2-grams:
-0.1\tcat sat\t-0.5
-0.6989\tcot cat
-0.2\t<s> cat\t-0.15
-0.7\tsat </s>

\\3-grams:
-0.05\t<s> cat sat

\\end\\
"""


def read(tmp_path, text: str = ARPA) -> NgramTable:
    path = tmp_path / "small.arpa"
    path.write_text(text)
    return read_ngrams(path)


def score(table: NgramTable, text: str) -> float:
    indices = np.array([[table.words.index(word) for word in text.split()]])
    return float(table.log_probs_of(indices)[0]) / math.log(10)


def test_scores_back_off(tmp_path):
    table = read(tmp_path)
    assert [len(order) for order in table.orders] == [5, 4, 1]
    assert score(table, "<s> cat sat") == pytest.approx(-0.05)
    assert score(table, "<s> cat cot") == pytest.approx(-0.15 - 0.1 - 0.69897)
    assert score(table, "cot cat sat") == pytest.approx(-0.1)
    assert score(table, "cot sat cat") == pytest.approx(-0.2 - 0.39794)


def test_zipped_is_the_same(tmp_path):
    path = tmp_path / "small.arpa.gz"
    path.write_bytes(gzip.compress(ARPA.encode()))
    table = read_ngrams(path)
    assert table.words == read(tmp_path).words
    assert score(table, "<s> cat sat") == pytest.approx(-0.05)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (ARPA[: ARPA.index("\\data")], r"no line \\data"),
        (ARPA.replace("ngram 2=4", "ngram 2=5"), r"line \d+: 5 2-grams are expected"),
        (ARPA.replace("ngram 2=4", "ngram 2=3"), r"line \d+: 3 2-grams are expected"),
        (ARPA.replace("cot cat", "cot dog"), "'dog' is no unigram"),
        (ARPA.replace("-0.6989\t", "x\t"), "could not convert"),
        (ARPA.replace("\\end\\", ""), r"\\end\\ is expected"),
        (ARPA.replace("\\2-grams:", "\\4-grams:"), r"\\2-grams: is expected"),
        (ARPA.replace("<s>", "<start>"), "has no <s>"),
    ],
)
def test_broken_files_are_refused(tmp_path, broken, message):
    with pytest.raises(ConfigError, match=f"small.arpa.*{message}"):
        read(tmp_path, broken)


def test_missing_and_binary_files_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.arpa does not exist"):
        read_ngrams(tmp_path / "none.arpa")
    path = tmp_path / "model.bin"
    path.write_bytes(b"\xff\xfe\x00rubbish")
    with pytest.raises(ConfigError, match=r"model\.bin is not an ARPA file"):
        read_ngrams(path)


def test_a_shorter_history(tmp_path):
    table = of_order(read(tmp_path), 2)
    assert len(table.orders) == 2
    assert score(table, "cat sat") == pytest.approx(-0.1)
    assert not table.orders[1].backoffs.any()


def test_fewer_words(tmp_path):
    table = of_words(read(tmp_path), {"cat", "sat"})
    assert set(table.words) == {"<s>", "</s>", "cat", "sat"}
    assert [len(order) for order in table.orders] == [4, 3, 1]
    assert score(table, "<s> cat sat") == pytest.approx(-0.05)
    assert likeliest_words(read(tmp_path), 1) == {"cat"}


def normalised(seed: int) -> str:
    """An ARPA bigram model of six words whose probabilities add up to one."""
    random = np.random.default_rng(seed)
    words = ("<s>", "</s>", "a", "b", "c", "d")
    unigrams = np.concatenate([[0.0], random.dirichlet(np.ones(5))])
    lines = {}
    for history in (0, 2, 3, 4, 5):
        conditional = np.concatenate([[0.0], random.dirichlet(np.ones(5))])
        for word in random.choice([1, 2, 3, 4, 5], 3, replace=False):
            lines[history, word] = conditional[word]
    weights = {}
    for history in (0, 2, 3, 4, 5):
        listed = [word for first, word in lines if first == history]
        left = 1 - sum(lines[history, word] for word in listed)
        weights[history] = left / (1 - unigrams[listed].sum())
    text = ["\\data\\", "ngram 1=6", f"ngram 2={len(lines)}", "\\1-grams:"]
    for index, word in enumerate(words):
        log_prob = math.log10(unigrams[index]) if unigrams[index] else -99
        text.append(f"{log_prob} {word} {math.log10(weights.get(index, 1.0))}")
    text.append("\\2-grams:")
    text += [f"{math.log10(p)} {words[a]} {words[b]}" for (a, b), p in lines.items()]
    return "\n".join([*text, "\\end\\"])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("threshold", [1e-3, 1e-2, 0.9])
def test_pruned_probabilities_still_add_up(tmp_path, seed, threshold):
    table = read(tmp_path, normalised(seed))
    pruned = entropy_pruned(table, threshold)
    assert len(pruned.orders[1]) <= len(table.orders[1])
    for history in ("<s>", "a", "b", "c", "d"):
        words = [word for word in table.words if word != "<s>"]
        total = sum(10 ** score(pruned, f"{history} {word}") for word in words)
        assert total == pytest.approx(1.0, abs=1e-6)
    if threshold == 0.9:
        assert len(pruned.orders[1]) == 0


@pytest.mark.parametrize("seed", range(3))
def test_what_is_pruned_costs_less_perplexity_than_the_threshold(tmp_path, seed):
    table = read(tmp_path, normalised(seed))
    bigrams = [tuple(ngram) for ngram in table.orders[1].words.tolist()]
    rises = {bigram: perplexity_rise(table, bigram) for bigram in bigrams}
    threshold = sorted(rises.values())[len(rises) // 2] * 1.0001
    pruned = entropy_pruned(table, threshold)
    kept = {tuple(ngram) for ngram in pruned.orders[1].words.tolist()}
    assert kept == {bigram for bigram, rise in rises.items() if rise >= threshold}


def perplexity_rise(table: NgramTable, lost: tuple[int, int]) -> float:
    """Return what the loss of one bigram costs, from all probabilities of its history."""
    history, _ = lost
    unigrams = np.exp(table.orders[0].log_probs)
    words = [index for index, word in enumerate(table.words) if word != "<s>"]
    before = np.exp(table.log_probs_of(np.array([[history, word] for word in words])))
    listed = {second for first, second in table.orders[1].words.tolist() if first == history}
    kept = [words.index(word) for word in listed - {lost[1]}]
    after = unigrams[words].copy()
    others = [place for place in range(len(words)) if place not in kept]
    after[others] *= (1 - before[kept].sum()) / after[others].sum()
    after[kept] = before[kept]
    end = table.words.index("</s>")
    weight = unigrams[end if table.words[history] == "<s>" else history]
    return float(np.expm1(weight * (before * np.log(before / after)).sum()))
