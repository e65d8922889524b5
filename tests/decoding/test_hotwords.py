"""Hotwords against enumeration, and what they change in texts."""

import itertools
import math

import numpy as np
import pytest
from ctc_paths import log_probs_of
from ctc_reference import VOCAB, random_log_probs

from conch.component import Row
from conch.decoding.hotwords.placing import HotwordFinder, Reading, best_alignment
from conch.decoding.hotwords.spotting import HotwordTrie, Spotter, hotword_trie
from conch.decoding.hypothesis import AlignedWord, CtcHypothesis
from conch.decoding.units import Characters
from conch.families.ctc.decoder import CtcDecoder, CtcDecoderConfig
from conch.wire.errors import OptionError
from conch.wire.hotwords import Hotword


def trie_of(phrases: dict[str, float], **options) -> HotwordTrie:
    hotwords = [Hotword(*item) for item in phrases.items()]
    return hotword_trie(
        hotwords, VOCAB, lambda text: [VOCAB.index(item) for item in text], **options
    )


def noise(seed: int, frames: int) -> np.ndarray:
    return random_log_probs(seed, frames, sharpness=1.5).numpy().astype(np.float32)


def best_path_of(log_probs: np.ndarray, units: tuple[int, ...]) -> float:
    """Return the log probability of the best path of some units, by trying all paths."""
    best = -math.inf
    rows = log_probs.tolist()
    for path in itertools.product(range(len(VOCAB)), repeat=len(rows)):
        if tuple(unit for unit, _ in itertools.groupby(path) if unit) == units:
            score = sum(row[unit] for row, unit in zip(rows, path, strict=True))
            best = max(best, score)
    return best


def spotted(trie: HotwordTrie, pieces) -> dict[tuple[int, int], tuple[int, float]]:
    """Return start and score by phrase and end."""
    spotter = Spotter(trie)
    for piece in pieces:
        spotter.advance(piece)
    spots = [item.tolist() for item in spotter.spots()]
    return {(phrase, end): (start, score) for phrase, start, end, score in zip(*spots, strict=True)}


@pytest.mark.parametrize("seed", range(4))
def test_a_spot_scores_as_the_best_path_of_its_frames(seed):
    log_probs = noise(seed, 6)
    trie = trie_of({"ab": 1.0, "aa": 1.0, "a b": 1.0, "c": 1.0})
    found = spotted(trie, [log_probs])
    relative = log_probs - log_probs.max(1, keepdims=True)
    for phrase, spelling in enumerate(trie.spellings):
        for end in range(1, 7):
            # The last frame is that of the last unit: a path may not end in a blank.
            cut = relative[:end].copy()
            cut[-1, [unit for unit in range(len(VOCAB)) if unit != spelling[-1]]] = -1e3
            expected = max(best_path_of(cut[start:], spelling) for start in range(end))
            if expected < -1e2:
                assert (phrase, end) not in found
            else:
                start, score = found[phrase, end]
                assert score == pytest.approx(expected, abs=0.01)
                assert best_path_of(cut[start:], spelling) == pytest.approx(score, abs=0.01)


def test_frames_may_come_in_any_pieces():
    log_probs = np.concatenate([noise(1, 25), np.log(np.full((9, 5), 1e-5, np.float32))])
    log_probs[25:, 0] = 0
    log_probs = np.concatenate([log_probs, noise(2, 20)])
    trie = trie_of({"ab": 1.0, "a b c": 1.0, "cab": 1.0})
    whole = spotted(trie, [log_probs])
    assert len(whole) > 20
    assert spotted(trie, np.array_split(log_probs, 54)) == whole
    assert spotted(trie, np.array_split(log_probs, 5)) == whole


@pytest.mark.parametrize("units", [(2,), (1, 2, 1), (2, 2), (1, 2, 3, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_the_best_alignment_is_that_of_enumeration(units, seed):
    log_probs = noise(seed, 5)
    found = best_alignment(log_probs, units, may_skip_first=False, may_skip_last=False)
    assert found is not None
    assert found.score == pytest.approx(best_path_of(log_probs, units), abs=1e-5)
    assert all(start < end for start, end in found.frames)
    if len(units) > 2:
        texts = [units[first:last] for first in (0, 1) for last in (-1, len(units))]
        found = best_alignment(log_probs, units, may_skip_first=True, may_skip_last=True)
        assert found is not None
        best = max(best_path_of(log_probs, item) for item in texts)
        assert found.score == pytest.approx(best, abs=1e-5)


def test_units_need_a_frame_each():
    kept = {"may_skip_first": False, "may_skip_last": False}
    assert best_alignment(noise(0, 1), (2, 3), **kept) is None
    assert best_alignment(noise(0, 2), (2, 2), **kept) is None


def test_what_a_trie_refuses():
    with pytest.raises(OptionError, match="'x-ray', which has '-'"):
        trie_of({"a": 1.0, "x-ray": 1.0})
    assert trie_of({"a": 1.0, "x-ray": 1.0}, skips_foreign=True).phrases == ("a",)
    assert trie_of({"a  b": 1.0, " a b": 3.0}).weights.tolist() == [3.0]


def reading_of(words, log_probs: np.ndarray, path: str, lm_scores=None) -> Reading:
    units = [0 if item == "-" else VOCAB.index(item) for item in path]
    am_scores = log_probs[np.arange(len(path)), units].astype(np.float64)
    return Reading(
        tuple(AlignedWord(text, start, end, 0.5) for text, start, end in words),
        am_scores,
        np.zeros(len(path)) if lm_scores is None else lm_scores,
    )


def peaked(path: str, peak: float = 0.6) -> np.ndarray:
    probs = np.full((len(path), 5), (1 - peak) / 4, np.float32)
    for frame, item in enumerate(path):
        probs[frame, 0 if item == "-" else VOCAB.index(item)] = peak
    return np.log(probs)


def placed(reading: Reading, log_probs: np.ndarray, phrases: dict[str, float], kept: int = 0):
    finder = HotwordFinder(trie_of(phrases), 0.0)
    finder.advance(log_probs)
    finder.kept_frames = kept
    return finder.rewrite(CtcHypothesis("", reading.words, 0.0, 0.0, 0.0), reading)


def test_a_hotword_takes_the_place_of_words_that_sound_like_it():
    path = "ab- -ba- -aa-"
    log_probs = peaked(path)
    reading = reading_of([("ab", 0, 2), ("ba", 5, 7), ("a", 10, 12)], log_probs, path)
    cost = math.log(0.6 / 0.1)  # of one letter for another
    for weight, words in ((0.9, ["ab", "ba", "a"]), (1.1, ["ab", "bc", "a"])):
        # Two units have a fifth of the weight.
        found = placed(reading, log_probs, {"ca": 0.0, "b": 0.0, "bc": weight * 5 * cost})
        assert [word.text for word in found.words] == words
    assert found.score == pytest.approx(0.1 * cost, abs=1e-4)
    assert found.am_score == pytest.approx(-cost, abs=1e-4)
    hotword = found.words[1]
    assert (hotword.start_frame, hotword.end_frame) == (5, 7)
    assert hotword.confidence == pytest.approx(math.sqrt(0.6 * 0.1))


def test_no_hotword_reaches_over_words_that_stay():
    path = "ab- -ba- -aa-"
    log_probs = peaked(path)
    reading = reading_of([("ab", 0, 2), ("ba", 5, 7), ("a", 10, 12)], log_probs, path)
    for kept, words in ((0, ["abba", "a"]), (2, ["ab", "ba", "a"]), (7, ["abba", "a"])):
        found = placed(reading, log_probs, {"abba": 8.0}, kept)
        assert [word.text for word in found.words] == words


def test_a_phrase_takes_the_place_of_several_words_and_of_parts_of_them():
    path = "ab- -b-a -cc-"
    log_probs = peaked(path)
    reading = reading_of([("ab", 0, 2), ("ba", 5, 8), ("cc", 10, 12)], log_probs, path)
    found = placed(reading, log_probs, {"ab ba": 10.0})
    assert found.words[:2] == reading.words[:2]  # what is there already stays as it is
    found = placed(reading, log_probs, {"abba": 15.0})
    assert [word.text for word in found.words] == ["abba", "cc"]
    found = placed(reading, log_probs, {"ba c": 5.0})
    assert [word.text for word in found.words] == ["ab", "ba", "c"]
    assert found.words[2].start_frame == 10


@pytest.mark.parametrize("seed", range(20))
def test_no_two_words_share_a_frame(seed):
    log_probs = noise(seed, 26)
    path = "ab--  -b-a  -cc--  -ba--  "
    reading = reading_of(
        [("ab", 0, 2), ("ba", 7, 10), ("c", 13, 15), ("ba", 20, 22)], log_probs, path
    )
    # At such weights every gap gets a hotword.
    found = placed(reading, log_probs, dict.fromkeys(("ac", "bc", "cab", "abc a"), 80.0))
    assert len(found.words) > 3
    for word, following in itertools.pairwise(found.words):
        assert word.start_frame < word.end_frame <= following.start_frame


def test_a_language_model_counts_on_both_sides():
    path = "ab- -ba"
    log_probs = peaked(path)
    lm_scores = np.zeros(len(path))
    lm_scores[6] = -20.0
    plain = reading_of([("ab", 0, 2), ("ba", 5, 7)], log_probs, path, lm_scores)
    reading = Reading(plain.words, plain.am_scores, lm_scores, lm_weight=1.0, word_bonus=2.0)
    found = placed(reading, log_probs, {"bc": 0.0})
    cost = math.log(0.6 / 0.1)
    # -16 for a word that the model does not know, and the bonus of a word.
    assert found.score == pytest.approx(-16 + 2 + 20 - cost, abs=1e-4)
    assert found.lm_score == pytest.approx(-16 + 22, abs=1e-4)


@pytest.fixture(scope="module")
def decoder(letters) -> CtcDecoder:
    return CtcDecoder(CtcDecoderConfig(**letters))


@pytest.mark.parametrize(
    "parameters", [{"decoder": "wfst"}, {"lm_fusion": True}, {"beam_size": 1}, {}]
)
def test_every_decoder_writes_a_word_that_no_list_has(decoder, parameters):
    log_probs = log_probs_of("--th-e--  -z-o-k-s--  ju-mp-s-", 0.9)
    rows = []
    for hotwords in ("", "zocs:40, dogs, lazy", "triton:40"):
        sent = {**parameters, "hotwords": hotwords}
        lens = np.array([len(log_probs)], np.int32)
        rows.append(Row({"log_probs": log_probs, "log_probs_lens": lens}, sent))
    plain, hot, other = decoder(rows)
    assert b"zocs" not in plain["words"]
    assert hot["words"].tolist() == [b"the", b"zocs", b"jumps"]
    assert other["hypotheses"].tolist() == plain["hypotheses"].tolist()
    assert 0.2 < hot["word_starts"][1] < hot["word_ends"][1] < 0.45
    assert hot["word_starts"][[0, 2]] == pytest.approx(plain["word_starts"][[0, 2]])


@pytest.mark.parametrize("step", [1, 3, 10])
def test_a_live_beam_ends_with_the_text_of_the_recording(decoder, step):
    log_probs = log_probs_of("--th-e--  -z-o-k-s--  ju-mp-s- -o-v-er- -th-e-- -l-a-zy- ", 0.7)
    parameters = {"lm_fusion": True, "hotwords": "zocs:40, lasi:30, ove\u2019r:5"}
    whole = decoder.new_search(parameters)
    whole.advance(log_probs)
    (expected,) = whole.nbest(1, is_final=True)
    live = decoder.new_search(parameters)
    stable = ""
    for start in range(0, len(log_probs), step):
        live.advance(log_probs[start : start + step])
        (found,) = live.nbest(1, is_final=False)
        assert live.stable_text().startswith(stable)
        stable = live.stable_text()
        assert found.text.startswith(stable)
    assert stable.startswith("the zocs")
    assert live.nbest(1, is_final=True) == [expected]


def test_a_list_is_built_once(decoder):
    words = ",".join(f"name{first}{second}" for first in Characters.vocab[3:] for second in "abc")
    row = Row(
        {"log_probs": log_probs_of("ab"), "log_probs_lens": np.array([2], np.int32)},
        {"hotwords": words},
    )
    decoder([row])
    before = decoder.tries.cache_info()
    decoder([row] * 3)
    assert decoder.tries.cache_info().hits == before.hits + 3
