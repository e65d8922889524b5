"""Language models by hand, against each other, and the one that ships."""

import builtins
import math
import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from tiny_arpa import TINY

from conch.decoding.ngram.files import read_ngrams
from conch.decoding.ngram.model import (
    SHIPPED,
    KenlmModel,
    LanguageModelConfig,
    NgramModel,
    load_language_model,
    model_path,
    ngram_lookup,
)
from conch.language import language_model_words
from conch.wire.errors import ConfigError

ENGINES = [pytest.param(NgramModel, id="numpy"), pytest.param(KenlmModel, id="kenlm")]


@pytest.fixture
def tiny(tmp_path) -> Path:
    path = tmp_path / "tiny.arpa"
    path.write_text(TINY)
    return path


def opened(engine, path: Path, oov_log_prob: float = -9.0):
    if engine is KenlmModel:
        pytest.importorskip("kenlm")
        return KenlmModel(path, oov_log_prob)
    return NgramModel(ngram_lookup(read_ngrams(path)), oov_log_prob)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("words", "log10_prob"),
    [
        # a | <s>; b | <s> a; </s> | a b backs off to b </s>
        ("a b", -0.4 - 0.2 + (-0.05 - 0.5)),
        # b | <s> and a | b back off to one word; </s> | a too
        ("b a", (-0.3 - 0.7) + (-0.25 - 0.8) + (-0.2 - 0.9)),
        ("c", (-0.3 - 1.5) + (-0.1 - 0.9)),
        ("", -0.3 - 0.9),
    ],
)
def test_by_hand(engine, tiny, words, log10_prob):
    model = opened(engine, tiny)
    assert model.score(words.split()) == pytest.approx(log10_prob * math.log(10), abs=0.01)


@pytest.mark.parametrize("engine", ENGINES)
def test_unknown_words_cost_what_the_parameter_says_and_end_the_history(engine, tiny):
    model = opened(engine, tiny, -9.0)
    # a | <s>; z; b without a history; </s> | b
    expected = -0.4 * math.log(10) - 9.0 + (-0.7 - 0.5) * math.log(10)
    assert model.score(["a", "z", "b"]) == pytest.approx(expected, abs=0.01)


def test_engines_agree_on_a_random_model(tmp_path):
    pytest.importorskip("kenlm")
    rng = random.Random(5)
    vocabulary = ["<s>", "</s>", *(f"w{index}" for index in range(40))]
    inner = vocabulary[2:]
    bigrams = sorted(
        {(rng.choice(["<s>", *inner]), rng.choice(vocabulary[1:])) for _ in range(500)}
    )
    follows: dict[str, list[str]] = {}
    for first, second in bigrams:
        follows.setdefault(first, []).append(second)
    trigrams = sorted(
        {
            (first, second, rng.choice(follows[second]))
            for first, second in bigrams
            if second in follows
        }
    )

    def number() -> str:
        return f"{-rng.uniform(0.1, 3):.4f}"

    lines = ["\\data\\", f"ngram 1={len(vocabulary)}", f"ngram 2={len(bigrams)}"]
    lines += [f"ngram 3={len(trigrams)}", "", "\\1-grams:"]
    lines += [f"{number()}\t{word}\t{number()}" for word in vocabulary]
    lines += ["", "\\2-grams:"]
    lines += [f"{number()}\t{' '.join(gram)}\t{number()}" for gram in bigrams]
    lines += ["", "\\3-grams:", *(f"{number()}\t{' '.join(gram)}" for gram in trigrams)]
    path = tmp_path / "random.arpa"
    path.write_text("\n".join([*lines, "", "\\end\\", ""]))

    first, second = opened(NgramModel, path, -11.0), opened(KenlmModel, path, -11.0)
    for length in range(30):
        sentence = [rng.choice([*inner, "unknown"]) for _ in range(length)]
        assert first.score(sentence) == pytest.approx(second.score(sentence), abs=1e-4)


def test_the_model_that_ships_knows_english():
    model = load_language_model(LanguageModelConfig())

    def score(text: str) -> float:
        return model.score(language_model_words(text))

    said = score("one of the members of the united states senate")
    assert said > score("one of the members off the united states senate")
    assert said > score("one of the zxqv members of the united states senate")
    assert said > score("one of the senate of members united the states") + 20
    assert score("i don't know") == pytest.approx(-8.39, abs=0.01)


def test_words_one_by_one_score_as_the_table_says():
    ngrams = read_ngrams(SHIPPED)
    model = NgramModel(ngram_lookup(ngrams), -12.0)
    choose = random.Random(0)
    common = [
        ngrams.words[index] for order in ngrams.orders[1:] for index in order.words[::9999, 0]
    ]
    pool = [*common, *choose.sample(ngrams.words, 200)]
    indices = {word: index for index, word in enumerate(ngrams.words)}
    longest, by_length = len(ngrams.orders), defaultdict(list)
    for _ in range(100):
        sentence = [*choose.choices(pool, k=9), "</s>"]
        scores, context = [], model.start
        for word in sentence:
            score, context = model.after(context, word)
            scores.append(score)
        assert model.score(sentence[:-1]) == pytest.approx(sum(scores))
        read = [indices[word] for word in ("<s>", *sentence)]
        for end, score in enumerate(scores, start=2):
            window = read[max(0, end - longest) : end]
            by_length[len(window)].append((window, score))
    for items in by_length.values():
        windows, found = zip(*items, strict=True)
        assert found == pytest.approx(ngrams.log_probs_of(np.array(windows)), rel=1e-5)
    assert model.after(context, "qqxq") == (-12.0, (-1,) * (longest - 1))


def test_a_missing_or_broken_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"the language model .*none\.arpa does not exist"):
        load_language_model(LanguageModelConfig(model=str(tmp_path / "none.arpa")))
    broken = tmp_path / "broken.arpa"
    broken.write_text("not a language model")
    with pytest.raises(ConfigError, match=r"broken\.arpa is not an ARPA file"):
        load_language_model(LanguageModelConfig(model=str(broken)))
    with pytest.raises(ConfigError, match="engine must be numpy or kenlm; is: 'srilm'"):
        load_language_model(LanguageModelConfig(engine="srilm"))


def test_kenlm_names_a_broken_file(tmp_path):
    pytest.importorskip("kenlm")
    broken = tmp_path / "broken.arpa"
    broken.write_text("not a language model")
    with pytest.raises(ConfigError, match=r"KenLM cannot read .*broken\.arpa"):
        load_language_model(LanguageModelConfig(model=str(broken), engine="kenlm"))


def test_kenlm_says_how_to_install_it(monkeypatch):
    def without_kenlm(name, *args, original=builtins.__import__, **kwargs):
        if name == "kenlm":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_kenlm)
    with pytest.raises(ConfigError, match=r"pip install -c constraints\.txt -e '\.\[kenlm\]'"):
        KenlmModel(model_path(""), -9.0)


def test_a_model_that_is_loaded_again_is_mapped_and_scores_the_same(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = LanguageModelConfig(model=str(tiny), oov_log_prob=-9.0)
    first = load_language_model(config)
    monkeypatch.setattr("conch.decoding.ngram.model.read_ngrams", None)
    again = load_language_model(config)
    built = NgramModel(ngram_lookup(read_ngrams(tiny)), -9.0)
    for words in (["a", "b"], ["b", "a", "c"], ["x", "a"], []):
        assert first.score(words) == again.score(words) == built.score(words)
    assert list((tmp_path / "cache" / "conch").glob("ngrams-*/keys3.npy"))
