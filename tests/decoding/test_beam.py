"""The beam search against enumeration; streams in chunks; what a beam guarantees."""

import gc
import math

import numpy as np
import pytest
import torch
from ctc_reference import VOCAB, beam_search, random_log_probs, text_scores

from conch.decoding.beam import BeamSearch, CtcSearchOptions, Emission
from conch.decoding.units import Characters
from conch.decoding.vocab import CtcVocab
from conch.wire.errors import ConfigError, OptionError
from lab.training.ctc.units import greedy_text

ALL = CtcSearchOptions(beam_size=512, unit_min_log_prob=-1000)
"""Options of a beam that holds every prefix of a few frames."""


def new_search(options=ALL, vocab=VOCAB) -> BeamSearch:
    return BeamSearch(CtcVocab(vocab), options)


def searched(log_probs, options=ALL, chunks=(), count=1000, vocab=VOCAB):
    search = new_search(options, vocab)
    for chunk in log_probs.tensor_split(list(chunks)):
        search.advance(chunk.numpy())
    return search.nbest(count, is_final=True)


@pytest.mark.parametrize("seed", range(8))
def test_a_beam_that_holds_everything_finds_every_text_and_its_probability(seed):
    log_probs = random_log_probs(seed, 4)
    exact = text_scores(log_probs)
    found = searched(log_probs)
    assert {item.text: item.am_score for item in found} == pytest.approx(exact, abs=1e-9)
    assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)
    assert math.fsum(math.exp(item.am_score) for item in found) == pytest.approx(1)


@pytest.mark.parametrize("vocab", [("", "a", "b", "c"), ("", " a", "b", " b", "ab")])
def test_other_vocabularies(vocab):
    log_probs = random_log_probs(3, 4, vocab)
    found = searched(log_probs, vocab=vocab)
    exact = text_scores(log_probs, vocab)
    assert {item.text: item.am_score for item in found} == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("vocab", [VOCAB, ("", "a", "b", "c")])
@pytest.mark.parametrize("beam_size", [1, 3, 10])
@pytest.mark.parametrize("seed", range(5))
def test_a_beam_keeps_what_the_search_prefix_by_prefix_keeps(vocab, beam_size, seed):
    log_probs = random_log_probs(seed, 40, vocab, sharpness=3)
    options = CtcSearchOptions(beam_size=beam_size, unit_min_log_prob=-1000)
    found = searched(log_probs, options, vocab=vocab)
    expected = beam_search(log_probs, vocab, beam_size)
    assert [item.text for item in found] == [text for text, _ in expected]
    assert [item.am_score for item in found] == pytest.approx([score for _, score in expected])


@pytest.mark.parametrize("beam_size", [1, 2, 3])
def test_a_beam_of_ties_is_never_empty(beam_size):
    rng = np.random.default_rng(beam_size)
    vocab = ("", " a", "b", " b", "ab")
    options = CtcSearchOptions(beam_size=beam_size, unit_min_log_prob=-1000)
    for _ in range(100):
        search = new_search(options, vocab)
        for _ in range(12):
            probs = rng.choice([0.5, 1.0, 1.0, 2.0], (1, len(vocab)))
            search.advance(np.log(probs / probs.sum()).astype(np.float32))
            assert search.nbest(1, is_final=False)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_no_beam_claims_more_than_the_exact_probability(seed, beam_size):
    log_probs = random_log_probs(seed, 6)
    exact = text_scores(log_probs)
    found = searched(log_probs, CtcSearchOptions(beam_size=beam_size))
    assert 1 <= len(found) <= beam_size
    for item in found:
        assert item.am_score <= exact[item.text] + 1e-9
    assert found[0].am_score <= max(exact.values()) + 1e-9


def test_larger_beams_find_better_texts_on_the_whole():
    # Not each time: a path pruned early may make room for one that fails later.
    means = []
    for beam_size in (1, 2, 4, 16, 64):
        options = CtcSearchOptions(beam_size=beam_size, unit_min_log_prob=-1000)
        best = [searched(random_log_probs(seed, 30), options)[0] for seed in range(20)]
        means.append(sum(item.score for item in best))
    assert means == sorted(means)


@pytest.mark.parametrize("seed", range(10))
def test_a_beam_of_one_is_greedy_where_every_frame_has_a_unit_of_more_than_0_71(seed):
    # With c the least of these, a repetition after a blank needs c * c > 1 - c * c.
    generator = torch.Generator().manual_seed(seed)
    best = torch.randint(0, len(VOCAB), (200,), generator=generator)
    probs = torch.rand(200, len(VOCAB), dtype=torch.float64, generator=generator)
    probs[torch.arange(200), best] = 0
    probs = 0.28 * probs / probs.sum(1, keepdim=True)
    probs[torch.arange(200), best] = 0.72
    (found,) = searched(probs.log(), CtcSearchOptions(beam_size=1))
    assert found.text == greedy_text(best.tolist(), VOCAB)


@pytest.mark.parametrize("chunks", [(1,), (7, 7, 30), tuple(range(1, 60))])
@pytest.mark.parametrize("limit", [-1000, -3.0])
def test_chunks_find_what_the_whole_finds(chunks, limit):
    log_probs = random_log_probs(1, 60, sharpness=4)
    options = CtcSearchOptions(beam_size=6, unit_min_log_prob=limit)
    whole = searched(log_probs, options)
    parts = searched(log_probs, options, chunks)
    assert [item.units for item in parts] == [item.units for item in whole]
    assert [item.score for item in parts] == pytest.approx([item.score for item in whole])
    assert [item.frames for item in parts] == [item.frames for item in whole]
    assert [item.words for item in parts] == [item.words for item in whole]


def test_frames_of_the_blank_alone_count_as_one():
    log_probs = random_log_probs(4, 40, sharpness=3)
    log_probs[10:30] = torch.tensor([0.999, 1e-4, 3e-4, 3e-4, 3e-4], dtype=torch.float64).log()
    kept = log_probs.clone()
    kept[10:30, 1:] = -math.inf
    (short,) = searched(log_probs, CtcSearchOptions(beam_size=4), count=1)
    masked = CtcSearchOptions(beam_size=4, unit_min_log_prob=-5)
    (long,) = searched(kept, masked, tuple(range(1, 40)), count=1)
    assert (short.units, short.frames) == (long.units, long.frames)
    assert short.score == pytest.approx(long.score)


def test_units_are_timed_by_where_their_probability_came_in():
    # A weak a at frame 2 stays in the beam as an alternative; the strong one is at frame 20.
    log_probs = torch.full((30, len(VOCAB)), 0.002, dtype=torch.float64)
    log_probs[:, 0] = 0.992
    log_probs[2, [0, 2]] = torch.tensor([0.954, 0.04], dtype=torch.float64)
    log_probs[20, [0, 2]] = torch.tensor([0.294, 0.7], dtype=torch.float64)
    log_probs[21, [0, 2]] = torch.tensor([0.094, 0.9], dtype=torch.float64)
    best, *_ = searched(log_probs.log(), CtcSearchOptions(unit_min_log_prob=-1000))
    assert best.text == "a"
    assert best.frames == (20,)
    (word,) = best.words
    assert (word.start_frame, word.end_frame) == (20, 21)
    assert word.confidence == pytest.approx(0.9)


def test_a_stream_of_hours_keeps_its_text_and_no_more():
    def emissions_held() -> int:
        gc.collect()
        return sum(type(item) is Emission for item in gc.get_objects())

    gc.freeze()  # all that is there already, or each look at it takes a second
    before = emissions_held()
    search = new_search(CtcSearchOptions())
    quiet = np.full((50, len(VOCAB)), -9.0)
    quiet[:, 0] = -1e-3
    counts = []
    for seed in range(60):
        for _ in range(3):
            search.advance(quiet)
        search.advance(random_log_probs(seed, 50, sharpness=12).numpy())
        units = len(search.nbest(1, is_final=False)[0].units)
        counts.append((emissions_held() - before - units, units))
    assert units > 1000
    # Besides the best text there is at most what the other nine do not share with it.
    assert all(extra < 9 * units for extra, units in counts)
    for _ in range(20):
        search.advance(quiet)
    assert emissions_held() - before <= sum(counts[-1])


def test_nothing_heard():
    (best,) = searched(torch.zeros(0, len(VOCAB)))
    assert (best.text, best.score, best.units, best.words) == ("", 0.0, (), ())


def test_a_very_long_text_is_freed_without_recursion():
    search = new_search(CtcSearchOptions(beam_size=2), Characters.vocab)
    log_probs = np.full((20_000, len(Characters.vocab)), -20.0)
    log_probs[np.arange(20_000), 3 + np.arange(20_000) % 20] = -1e-6
    search.advance(log_probs)
    assert len(search.nbest(1, is_final=True)[0].text) == 20_000
    del search
    gc.collect()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("beam_size", 0),
        ("beam_size", 513),
        ("lm_weight", -0.1),
        ("lm_weight", math.nan),
        ("word_bonus", 21),
    ],
)
def test_options_out_of_range_are_named(name, value):
    with pytest.raises(OptionError, match=f"option '{name}' takes .*; sent: {value}"):
        CtcSearchOptions(**{name: value})


def test_a_language_model_must_be_loaded():
    with pytest.raises(OptionError, match="lm_fusion"):
        new_search(CtcSearchOptions(language_model=True))


@pytest.mark.parametrize("texts", [(), ("a", "b"), ("", "a", "a"), ("", "a b"), ("", "a", "")])
def test_impossible_vocabularies(texts):
    with pytest.raises(ConfigError, match="vocab"):
        CtcVocab(texts)
