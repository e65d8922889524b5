"""Shallow fusion: scores by enumeration with a toy n-gram, and agreement with pyctcdecode."""

import math

import pytest
from ctc_reference import VOCAB, random_log_probs, text_scores

from conch.decoding.beam import BeamSearch, CtcSearchOptions
from conch.decoding.fusion import FusedLanguageModel, Fusion, load_fused_language_model
from conch.decoding.ngram.model import LanguageModelConfig, load_language_model
from conch.decoding.vocab import CtcVocab
from conch.wire.errors import ConfigError

TINY = r"""\data\
ngram 1=7
ngram 2=4
ngram 3=2

\1-grams:
-99	<s>	-0.3
-0.9	</s>
-0.8	a	-0.2
-0.7	b	-0.25
-1.5	ab	-0.1
-1.1	cab	-0.15
-1.9	ca	-0.15

\2-grams:
-0.4	<s> a	-0.15
-0.35	a b	-0.05
-0.5	b </s>
-0.6	cab a	-0.3

\3-grams:
-0.2	<s> a b
-0.3	a b </s>

\end\
"""
OOV = -9.0


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> LanguageModelConfig:
    path = tmp_path_factory.mktemp("lm") / "tiny.arpa"
    path.write_text(TINY)
    return LanguageModelConfig(model=str(path), oov_log_prob=OOV)


@pytest.fixture(scope="module")
def model(config) -> FusedLanguageModel:
    return load_fused_language_model(config.model, OOV, VOCAB)


def options(**changes) -> CtcSearchOptions:
    return CtcSearchOptions(
        **{
            "beam_size": 512,
            "unit_min_log_prob": -1000,
            "language_model": True,
            "lm_weight": 0.7,
            "word_bonus": 0.4,
            "prune_history": False,
            **changes,
        }
    )


def run(model, log_probs, own, is_final=True, chunk=1000, vocab=VOCAB):
    search = BeamSearch(CtcVocab(vocab), own, model)
    for part in log_probs.split(chunk):
        search.advance(part.numpy())
    return search.nbest(1000, is_final=is_final)


@pytest.mark.parametrize(
    "vocab", [VOCAB, ("", " a", "b", " c", "ab"), ("", " ", "a", " b")], ids=["letters", "b", "c"]
)
@pytest.mark.parametrize("seed", range(3))
def test_final_scores_are_those_of_enumeration(config, vocab, seed):
    log_probs = random_log_probs(seed, 4, vocab)
    model = load_language_model(config)
    fused = load_fused_language_model(config.model, OOV, vocab)
    found = {item.text: item for item in run(fused, log_probs, options(), vocab=vocab)}
    exact = text_scores(log_probs, vocab)
    assert found.keys() == exact.keys()
    for text, am_score in exact.items():
        words = text.split()
        lm_score = model.score(words)
        score = am_score + 0.7 * lm_score + 0.4 * len(words)
        assert found[text].lm_score == pytest.approx(lm_score, abs=1e-3)
        assert found[text].am_score == pytest.approx(am_score)
        assert found[text].score == pytest.approx(score, abs=1e-3)


def test_partial_scores_charge_beginnings_of_no_known_word(model):
    found = {item.text: item for item in run(model, random_log_probs(1, 4), options(), False)}
    assert found["ca"].score == pytest.approx(found["ca"].am_score)
    assert found["cc"].score == pytest.approx(found["cc"].am_score + 0.7 * OOV)
    assert found["a b"].score == pytest.approx(
        found["a b"].am_score + 0.7 * -0.4 * math.log(10) + 0.4
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_fusion_without_weights_finds_what_none_finds(model, seed):
    log_probs = random_log_probs(seed, 40, sharpness=3)
    nothing = options(beam_size=10, lm_weight=0.0, word_bonus=0.0)
    plain = CtcSearchOptions(unit_min_log_prob=-1000)
    with_model, without = run(model, log_probs, nothing), run(model, log_probs, plain)
    assert [item.text for item in with_model] == [item.text for item in without]
    assert [item.score for item in with_model] == pytest.approx([item.score for item in without])


@pytest.mark.parametrize(
    "changes", [{}, {"beam_size": 3, "lm_weight": 0.2}, {"prune_history": True}]
)
def test_chunks_find_what_the_whole_finds(model, changes):
    own = options(**{"beam_size": 8, **changes})
    for seed in range(4):
        log_probs = random_log_probs(seed, 60, sharpness=3)
        parts, whole = run(model, log_probs, own, chunk=9), run(model, log_probs, own)
        assert [item.text for item in parts] == [item.text for item in whole]
        for one, other in zip(parts, whole, strict=True):
            assert (one.score, one.lm_score) == pytest.approx((other.score, other.lm_score))


def test_dropping_history_makes_a_narrow_beam_better(model):
    kept, dropped = (
        [run(model, random_log_probs(seed, 40, sharpness=4), own)[0].score for seed in range(20)]
        for own in (options(beam_size=6), options(beam_size=6, prune_history=True))
    )
    assert sum(dropped) > sum(kept) + 5


def test_the_same_scores_as_pyctcdecode(config, model):
    pytest.importorskip("pyctcdecode")
    from pyctcdecode_search import beam_search

    own = options(beam_size=8, unit_min_log_prob=-5.0)
    same = total = 0
    for seed in range(20):
        log_probs = random_log_probs(seed, 40, sharpness=5)
        found = {item.text: item.score for item in run(model, log_probs, own)}
        beams = beam_search(log_probs.numpy(), VOCAB, config, 0.7, 0.4, beam_size=8)
        # Of a text with and without a space at its end it may add up less than all.
        assert found[beams[0][0]] == pytest.approx(beams[0][1], abs=1)
        same += sum(abs(found[text] - score) < 1e-3 for text, score in beams)
        total += len(beams)
    assert same > 0.9 * total


def test_a_beginning_of_no_known_word_has_a_cost(model):
    fusion = Fusion(model, VOCAB, 1.0, 0.0)

    def pending(text):
        words = fusion.start
        for letter in text:
            words = fusion.grown(words, VOCAB.index(letter))
        return words.pending / OOV

    assert [pending(text) for text in ("", "c", "ca", "cab", "cc b")] == [0, 0, 0, 0, 0]
    assert [pending(text) for text in ("cc", "cabb", "b cabb")] == [1, 1, 1]
    assert pending("a" * 12) == 2


def test_a_model_without_sentence_marks_cannot_be_fused(tmp_path):
    path = tmp_path / "bare.arpa"
    path.write_text("\\data\\\nngram 1=1\n\n\\1-grams:\n-1.0\ta\n\n\\end\\\n")
    with pytest.raises(ConfigError, match="has no <s>"):
        load_fused_language_model(str(path), OOV, VOCAB)
