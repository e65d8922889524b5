"""The graph search against a search of every sentence."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from graph_toys import (
    ARPA,
    LETTERS,
    NGRAMS,
    SUBWORDS,
    VOCAB,
    WORDS,
    best_sentences,
    lm_score,
    random_log_probs,
)

from conch.decoding.graph.search import DecodingGraph, WfstConfig, WfstStream
from conch.decoding.ngram.files import read_ngrams
from conch.graphs.build import DICTIONARY_LOG_PROB, GraphConfig, build_graph
from conch.graphs.lexicon import read_lexicon
from conch.wire.errors import ConfigError, InvalidRequestError
from conch.wire.nbest import Weights, ranked
from lab.training.ctc.texts import scored_lists

WIDE = WfstConfig(
    acoustic_scale=1.5,
    blank_penalty=0.0,
    beam=200,
    max_active=10_000,
    lattice_beam=60,
    lattice_max_active=10_000,
)
QUANTUM = 0.02
"""Minimisation rounds each cost to a thousandth."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("wfst")
    (path / "toy.arpa").write_text(ARPA)
    return path


def built(folder, name="toy", lexicon=None, units=LETTERS, **config) -> DecodingGraph:
    path = folder / f"{name}.fst"
    table = read_ngrams(folder / "toy.arpa")
    if lexicon is not None:
        (folder / f"{name}.txt").write_text(lexicon)
        lexicon = read_lexicon(folder / f"{name}.txt", units.vocab)
    build_graph(path, units, table, lexicon, GraphConfig(**{"prune": 0.0, **config}))
    return DecodingGraph(path, units.vocab)


@pytest.fixture(scope="module")
def graph(folder) -> DecodingGraph:
    return built(folder)


@pytest.fixture(scope="module")
def graph_of(folder, graph):
    return {LETTERS: graph, SUBWORDS: built(folder, "subwords", units=SUBWORDS)}


@pytest.fixture(params=[LETTERS, SUBWORDS], ids=["letters", "subwords"])
def units(request):
    return request.param


def decoded(graph, log_probs, config=WIDE, nbest=1):
    stream = WfstStream(graph, config)
    stream.advance(log_probs)
    return stream.finish(nbest)


@pytest.mark.parametrize("scale", [0.5, 1.5])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_sentence_is_that_of_brute_force(graph_of, units, seed, scale):
    log_probs = random_log_probs(seed, 9, units)
    expected = best_sentences(log_probs, 4, scale, units=units)
    (found,) = decoded(graph_of[units], log_probs, replace(WIDE, acoustic_scale=scale))
    assert tuple(found.text.split()) == expected[0][1]
    assert found.score == pytest.approx(expected[0][0], abs=QUANTUM)
    assert found.lm_score == pytest.approx(lm_score(expected[0][1]), abs=QUANTUM)
    assert found.score == pytest.approx(found.am_score + found.lm_score / scale)


@pytest.mark.parametrize("seed", range(8))
def test_the_nbest_list_is_that_of_brute_force(graph_of, units, seed):
    # As many frames as leave brute force no longer sentence to miss.
    frames, most_words = (8, 4) if units is LETTERS else (5, 5)
    log_probs = random_log_probs(seed, frames, units)
    expected = best_sentences(log_probs, most_words, WIDE.acoustic_scale, units=units)[:6]
    found = decoded(graph_of[units], log_probs, nbest=6)
    scores = [item.score for item in found]
    assert scores == sorted(scores, reverse=True)
    assert len({item.text for item in found}) == 6
    assert scores == pytest.approx([score for score, _ in expected], abs=QUANTUM)
    by_text = {" ".join(words): score for score, words in expected}
    for item in found:
        assert item.score == pytest.approx(by_text.get(item.text, item.score), abs=QUANTUM)
        assert item.lm_score == pytest.approx(lm_score(tuple(item.text.split())), abs=QUANTUM)


@pytest.mark.parametrize("nbest", [1, 6])
def test_a_blank_penalty_is_taken_off_every_blank(graph, nbest):
    log_probs = random_log_probs(3, 9)
    lowered = log_probs - np.eye(1, len(VOCAB), dtype=np.float32) * np.float32(0.75)
    assert decoded(graph, log_probs, replace(WIDE, blank_penalty=0.75), nbest) == decoded(
        graph, lowered, nbest=nbest
    )


class ToyLanguageModel:
    def score(self, words):
        return lm_score(tuple(words))


@pytest.mark.parametrize("seed", range(3))
def test_rescoring_by_the_graphs_own_ngrams_changes_nothing(graph, seed):
    log_probs = random_log_probs(seed, 12)
    (nbest,) = scored_lists(graph, ToyLanguageModel(), [log_probs])
    assert len(nbest) > 1
    weights = Weights(lm=1 / WfstConfig().acoustic_scale)
    again = {item.text: item.score for item in ranked(nbest, weights, replaces_lm=True)}
    assert again == pytest.approx({item.text: item.score for item in nbest}, abs=QUANTUM)


def test_a_bonus_counts_every_word(folder):
    graph = built(folder, "bonus", word_bonus=2.0)
    for seed in range(4):
        log_probs = random_log_probs(seed, 9)
        score, words = best_sentences(log_probs, 5, WIDE.acoustic_scale, 2.0)[0]
        (found,) = decoded(graph, log_probs)
        assert tuple(found.text.split()) == words
        assert found.score == pytest.approx(score, abs=QUANTUM)
        assert found.lm_score == pytest.approx(lm_score(words), abs=QUANTUM)


def test_more_words_are_as_likely_as_it_is_said(folder):
    more_words = (("Balab", "balab"), ("ball", "bal"))
    table = read_ngrams(folder / "toy.arpa")
    path = folder / "more.fst"
    config = GraphConfig(prune=0.0, oov_log_prob=-7.0)
    report = build_graph(path, LETTERS, table, None, config, more_words=more_words)
    assert (report.words, report.added, report.unknown) == (len(WORDS) + 1, 1, 0)
    graph = DecodingGraph(path, VOCAB)
    (found,) = decoded(graph, sure_of("a balab ball"))
    assert found.text == "a Balab ball"
    # Behind and before it there is no history.
    assert found.lm_score == pytest.approx(
        lm_score(("a",)) - lm_score((), ("a",)) - 0.2 * np.log(10) - 7.0 + lm_score(("ball",), ()),
        abs=QUANTUM,
    )
    assert decoded(graph, sure_of("bal"))[0].text == "ball"


def test_own_words_that_the_ngrams_know_are_at_least_as_likely_as_it_is_said(folder):
    table = read_ngrams(folder / "toy.arpa")
    path = folder / "raised.fst"
    config = GraphConfig(prune=0.0, oov_log_prob=-2.5)
    own, listed = (("lab", "lab"), ("all", "all")), (("aba", "aba"),)
    build_graph(path, LETTERS, table, None, config, more_words=own, dictionary=listed)
    graph = DecodingGraph(path, VOCAB)
    likely, rare = NGRAMS["all",][0], NGRAMS["lab",][0]
    assert rare < -2.5 < likely
    changes = {"lab": -2.5 - rare, "all": 0.0, "aba": 0.0}
    for (word, change), frames in zip(changes.items(), ("lab", "al_l", "aba"), strict=True):
        (found,) = decoded(graph, sure_of(f"a {frames}"))
        assert found.text == f"a {word}"
        assert found.lm_score == pytest.approx(lm_score(("a", word)) + change, abs=QUANTUM)


def test_own_words_are_likelier_than_those_of_a_dictionary(folder):
    table = read_ngrams(folder / "toy.arpa")
    path = folder / "own.fst"
    own, listed = (("balab", "balab"),), (("balab", "balab"), ("labal", "labal"))
    config = GraphConfig(prune=0.0, oov_log_prob=-7.0)
    build_graph(path, LETTERS, table, None, config, more_words=own, dictionary=listed)
    graph = DecodingGraph(path, VOCAB)
    scores = [decoded(graph, sure_of(f"a {word}"))[0].lm_score for word in ("balab", "labal")]
    assert scores[0] - scores[1] == pytest.approx(-7.0 - DICTIONARY_LOG_PROB, abs=QUANTUM)


@pytest.mark.parametrize("sizes", [(1,) * 40, (0, 7, 0, 13, 20), (39, 1)])
def test_chunks_give_what_the_whole_gives(graph, sizes):
    log_probs = random_log_probs(11, 40)
    narrow = replace(WIDE, lattice_beam=5)
    whole = decoded(graph, log_probs, narrow, nbest=4)
    stream = WfstStream(graph, narrow)
    for part in np.split(log_probs, np.cumsum(sizes)[:-1]):
        stream.advance(part)
    assert stream.num_frames == 40
    assert stream.finish(4) == whole


def sure_of(text, vocab=VOCAB) -> np.ndarray:
    """Return frames that are sure of these units; _ is the blank."""
    log_probs = np.full((len(text), len(vocab)), np.log(1e-4), np.float32)
    for frame, unit in enumerate(text):
        log_probs[frame, 0 if unit == "_" else vocab.index(unit)] = np.log(0.9)
    return log_probs


def test_words_have_times(graph):
    (found,) = decoded(graph, sure_of("_aa_ _bball_l__"))
    assert [(word.text, word.start_frame, word.end_frame) for word in found.words] == [
        ("a", 1, 3),
        ("ball", 6, 13),
    ]
    assert [word.confidence for word in found.words] == pytest.approx([0.9, 0.9])
    assert found.am_score == pytest.approx(15 * np.log(0.9))


def test_words_of_subwords_have_times(graph_of):
    path = ["_", " a", " a", " ba", "_", "ll", "ll", "_", "_", "_", " al", "l"]
    (found,) = decoded(graph_of[SUBWORDS], sure_of(path, SUBWORDS.vocab))
    assert [(word.text, word.start_frame, word.end_frame) for word in found.words] == [
        ("a", 1, 3),
        ("ball", 3, 7),
        ("all", 10, 12),
    ]


def test_partial_results_are_shown_as_they_are_spelled(graph):
    stream = WfstStream(graph, WIDE)
    assert stream.best().text == ""
    stream.advance(sure_of("a b"))
    assert stream.best().text in ("a b", "a ball")
    stream.advance(sure_of("al_l"))
    assert stream.best().text == "a ball"
    assert stream.finish()[0].text == "a ball"


def test_silence_and_no_frames_are_no_words(graph):
    (silence,) = decoded(graph, sure_of("______"))
    assert (silence.text, silence.words) == ("", ())
    assert silence.lm_score == pytest.approx(lm_score(()), abs=QUANTUM)
    (nothing,) = WfstStream(graph, WIDE).finish(3)
    assert (nothing.text, nothing.score) == ("", 0.0)


def test_noise_is_bounded_by_max_active(graph):
    log_probs = np.full((50, len(VOCAB)), -np.log(len(VOCAB)), np.float32)
    found = decoded(graph, log_probs, WfstConfig(max_active=30, lattice_max_active=30), nbest=3)
    assert len(found) >= 1
    assert np.isfinite([item.score for item in found]).all()


def test_impossible_units_are_allowed(graph):
    log_probs = np.where(sure_of("_a__") > -1, 0.0, -np.inf).astype(np.float32)
    assert decoded(graph, log_probs)[0].text == "a"


def test_words_are_written_as_the_lexicon_says_and_homophones_by_the_ngrams(folder):
    lexicon = "ball bal\nlab bal\na\nall\tal\nnever a\n"
    graph = built(folder, "spelled", lexicon)
    assert decoded(graph, sure_of("a bal"))[0].text == "a ball"
    assert [item.text for item in decoded(graph, sure_of("bal"), nbest=2)] == ["ball", "lab"]
    assert decoded(graph, sure_of("al"))[0].text == "all"


def test_streams_of_several_threads_share_a_graph(graph):
    inputs = [random_log_probs(seed, 30) for seed in range(12)]
    narrow = replace(WIDE, lattice_beam=5)
    alone = [decoded(graph, item, narrow, nbest=2) for item in inputs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda item: decoded(graph, item, narrow, nbest=2), inputs))
    assert together == alone


def test_frames_of_another_vocabulary_are_refused(graph):
    stream = WfstStream(graph, WIDE)
    with pytest.raises(InvalidRequestError, match=r"log_probs is \[3, 4\]"):
        stream.advance(np.zeros((3, 4), np.float32))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"beam": 0.0}, "beam takes a number above 0; is: 0.0"),
        ({"acoustic_scale": float("nan")}, "acoustic_scale takes"),
        ({"blank_penalty": float("inf")}, "blank_penalty takes a finite number; is: inf"),
        ({"max_active": 20}, "max_active takes 21 or more; is: 20"),
    ],
)
def test_config_is_checked(values, message):
    with pytest.raises(ConfigError, match=message):
        WfstConfig(**values)


def test_broken_and_foreign_graphs_are_refused(graph, folder):
    whole = (folder / "toy.fst").read_bytes()
    broken = folder / "broken.fst"
    with pytest.raises(ConfigError, match=r"absent\.fst cannot be read: No such file"):
        DecodingGraph(folder / "absent.fst", VOCAB)
    for size in (0, 3, 30, 90, len(whole) - 8):
        broken.write_bytes(whole[:size])
        with pytest.raises(ConfigError, match=r"broken\.fst is not one of OpenFst, or broken"):
            DecodingGraph(broken, VOCAB)
    broken.write_bytes(whole.replace(b"conch-ctc-graph-1", b"conch-ctc-graph-0"))
    with pytest.raises(ConfigError, match="was not made by this version"):
        DecodingGraph(broken, VOCAB)
    with pytest.raises(ConfigError, match="is for the vocabulary"):
        DecodingGraph(folder / "toy.fst", ("", " ", "a", "b", "c"))
