"""Contextual biasing: the score of each text against its definition, and wrong phrases."""

import itertools

import pytest
import torch
from ctc_reference import (
    VOCAB,
    hotword_pending,
    hotword_score,
    random_log_probs,
    text_scores,
)

from conch.decoding.beam.hotwords import hotword_tables
from conch.decoding.beam.search import CtcSearch
from conch.decoding.options import CtcSearchOptions
from conch.decoding.vocab import CtcVocab
from conch.wire.errors import OptionError
from conch.wire.hotwords import Hotword

LISTS = [
    {"ab": 3.0},
    {"a": 2.0, "ab": 4.0, "ab a": 9.0},
    {"a b": 5.0, "b a": 4.0, "b": 1.0},
    {"ab ab": 6.0, "b ab c": 3.0, "c": 0.5},
    {"a a a": 6.0, "a a b": 5.0},
]
ALL = CtcSearchOptions(beam_size=512, unit_min_log_prob=-1000)


def hotwords(weights: dict[str, float]) -> tuple[Hotword, ...]:
    return tuple(Hotword(*item) for item in weights.items())


@pytest.fixture(scope="module")
def search() -> CtcSearch:
    return CtcSearch(CtcVocab(VOCAB))


@pytest.mark.parametrize("weights", LISTS)
def test_every_text_gains_what_the_definition_says(weights):
    vocab = CtcVocab(VOCAB)
    tables = hotword_tables(hotwords(weights), vocab, None)
    for units in itertools.product(range(1, len(VOCAB)), repeat=6):
        text = vocab.text_of(units)
        if text != "".join(VOCAB[unit] for unit in units):
            continue  # no prefix: spaces at its ends, or two in a row
        state, done = 0, 0.0
        for unit in units:
            if VOCAB[unit] == " ":
                done += tables.done[state].item()
            pending = tables.pending[state, unit].item()
            state = int(tables.following[state, unit])
        assert done + tables.done[state].item() == pytest.approx(hotword_score(text, weights))
        assert done + pending == pytest.approx(hotword_pending(text, weights), abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weights", LISTS)
def test_final_scores_are_those_of_enumeration(search, seed, weights):
    log_probs = random_log_probs(seed, 4)
    options = CtcSearchOptions(beam_size=512, unit_min_log_prob=-1000, hotwords=hotwords(weights))
    (state,) = search.advance([search.start(options)], [log_probs])
    found = {item.text: item for item in search.nbest(state, 1000, True)}
    for text, am_score in text_scores(log_probs).items():
        bias = hotword_score(text, weights)
        assert found[text].am_score == pytest.approx(am_score)
        assert found[text].bias_score == pytest.approx(bias)
        assert found[text].score == pytest.approx(am_score + bias)


@pytest.mark.parametrize("seed", range(5))
def test_hotwords_without_weight_change_nothing(search, seed):
    log_probs = random_log_probs(seed, 50, sharpness=3)
    silent = CtcSearchOptions(hotwords=(Hotword("ab", 0.0), Hotword("c a", 0.0)))
    states = [search.start(CtcSearchOptions()), search.start(silent)]
    plain, biased = search.advance(states, [log_probs] * 2)
    assert search.nbest(biased, 10, True) == search.nbest(plain, 10, True)


def test_a_weight_decides_between_texts_that_sound_alike(search):
    log_probs = torch.tensor([[1e-3, 1e-3, 0.6, 0.397, 1e-3]], dtype=torch.float64).log()
    for weight, text in ((0.3, "a"), (0.6, "b")):
        options = CtcSearchOptions(hotwords=(Hotword("b", weight),))
        (state,) = search.advance([search.start(options)], [log_probs])
        assert search.nbest(state, 1, True)[0].text == text


def test_a_half_matched_phrase_keeps_no_boost(search):
    log_probs = random_log_probs(0, 4)
    options = CtcSearchOptions(
        beam_size=512, unit_min_log_prob=-1000, hotwords=(Hotword("abc", 9.0),)
    )
    (state,) = search.advance([search.start(options)], [log_probs])
    partial = {item.text: item.bias_score for item in search.nbest(state, 1000, False)}
    final = {item.text: item.bias_score for item in search.nbest(state, 1000, True)}
    assert (partial["ab"], partial["aba"], partial["bab"]) == pytest.approx((6.0, 0.0, 0.0))
    assert (final["ab"], final["abc"]) == pytest.approx((0.0, 9.0))


def test_a_thousand_hotwords(search):
    letters = itertools.product("abc", repeat=7)
    phrases = [f"{''.join(item)} {''.join(item[::-1])}" for item in itertools.islice(letters, 999)]
    options = CtcSearchOptions(hotwords=tuple(map(Hotword, ["cab", *phrases])))
    log_probs = [random_log_probs(seed, 40, sharpness=3) for seed in range(4)]
    states = search.advance([search.start(options) for _ in log_probs], log_probs)
    for state in states:
        (best,) = search.nbest(state, 1, True)
        weights = {item.phrase: item.weight for item in options.hotwords}
        assert best.bias_score == pytest.approx(hotword_score(best.text, weights))
        assert best.score == pytest.approx(best.am_score + best.bias_score)


def test_phrases_are_taken_as_words(search):
    spaced, twice = (Hotword("  ab   c ", 4.0),), (Hotword("ab c", 1.0), Hotword("ab c", 4.0))
    log_probs = random_log_probs(7, 30)
    states = [search.start(CtcSearchOptions(hotwords=item)) for item in (spaced, twice)]
    first, second = search.advance(states, [log_probs] * 2)
    assert search.nbest(first, 3, True) == search.nbest(second, 3, True)


@pytest.mark.parametrize(
    ("phrases", "message"),
    [
        ([Hotword("")], "at least one word; sent: ''"),
        ([Hotword("  ")], "at least one word; sent: '  '"),
        ([Hotword("a" * 101)], "at most 100 characters"),
        ([Hotword("a", -1.0)], "weights from 0 to 100; sent: -1.0"),
        ([Hotword("a", float("nan"))], "weights from 0 to 100; sent: nan"),
        ([Hotword("a")] * 2001, "at most 2000 phrases; sent: 2001"),
        ([Hotword("a"), Hotword("x-ray")], "sent: 'x-ray', which has '-'"),
    ],
)
def test_what_is_refused(search, phrases, message):
    with pytest.raises(OptionError, match=f"option 'hotwords' takes .*{message}"):
        search.start(CtcSearchOptions(hotwords=tuple(phrases)))


def test_subwords_spell_hotwords_in_any_way():
    vocab = ("", " a", "b", " ab", "c", " b")
    search = CtcSearch(CtcVocab(vocab))
    log_probs = random_log_probs(5, 3, vocab)
    weights = {"ab": 2.0, "abc b": 5.0}
    options = CtcSearchOptions(beam_size=512, unit_min_log_prob=-1000, hotwords=hotwords(weights))
    (state,) = search.advance([search.start(options)], [log_probs])
    found = {item.text: item.score for item in search.nbest(state, 1000, True)}
    for text, am_score in text_scores(log_probs, vocab).items():
        assert found[text] == pytest.approx(am_score + hotword_score(text, weights))
