"""The batched search against a plain one, hypothesis by hypothesis."""

import nemo_toys
import numpy as np
import onnx
import pytest

from conch.decoding.fusion import FusedLanguageModel, Fusion
from conch.decoding.ngram.model import LanguageModelConfig, load_language_model
from conch.decoding.vocab import WrittenUnits
from conch.families.transducer.folder import read_transducer
from conch.families.transducer.guide import Bias, Guide
from conch.families.transducer.networks import Joint
from conch.families.transducer.search import TransducerSearch
from conch.wire.hotwords import Hotword
from conch.wire.joining import joined_text


@pytest.fixture(scope="module")
def joint(toy):
    return Joint(toy, 1, 0.0)


@pytest.fixture(scope="module")
def search(joint, toy):
    return TransducerSearch(joint, WrittenUnits(toy.tokens))


def plain_search(joint, frames, beam_size):
    """Return the units of the beam, the best first, each with its score."""
    beam = {(): 0.0}
    for frame in frames:
        grown = []
        for units, score in beam.items():
            context = (*joint.predictor.start, *units)[-2:]
            (log_probs,) = joint.expected(
                frame[None], joint.predictor.predicted([context])
            ).log_probs
            for unit, log_prob in enumerate(log_probs.tolist()):
                after = units if unit in (0, 2) else (*units, unit)
                grown.append((score + log_prob, after))
        beam = {}
        for score, units in sorted(grown, reverse=True)[:beam_size]:
            beam[units] = np.logaddexp(beam[units], score) if units in beam else score
    return sorted(beam.items(), key=lambda item: -item[1] / (len(item[0]) + 2))


def texts(search, toy, beam):
    units = WrittenUnits(toy.tokens)
    return [
        joined_text(word.text for word in units.words((unit, 0, 0.0) for unit in item))
        for item, _ in beam
    ]


@pytest.mark.parametrize("beam_size", [1, 3, 8])
def test_it_finds_what_a_plain_search_finds(search, joint, toy, frames, beam_size):
    utterances = [search.utterance(beam_size) for _ in frames]
    search.advance(utterances, frames)
    for utterance, its in zip(utterances, frames, strict=True):
        expected = plain_search(joint, its, beam_size)
        found = utterance.nbest(beam_size, is_final=True)
        wanted = list(dict.fromkeys(texts(search, toy, expected)))
        assert [item.text for item in found] == wanted
        assert found[0].am_score == pytest.approx(expected[0][1], abs=1e-3)
        assert [item.score for item in found] == sorted((i.score for i in found), reverse=True)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_pieces_and_company_change_nothing(search, frames, beam_size):
    together = [search.utterance(beam_size) for _ in frames]
    search.advance(together, frames)
    for utterance, its in zip(together, frames, strict=True):
        alone = search.utterance(beam_size)
        for piece in np.array_split(its, 5):
            search.advance([alone], [piece])
        one, other = (item.nbest(1, is_final=True)[0] for item in (alone, utterance))
        assert (one.text, one.words) == (other.text, other.words)
        assert one.score == pytest.approx(other.score, abs=1e-3)


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("kind", ["rnnt", "tdt"])
def test_pieces_and_company_change_nothing_of_nemos(tmp_path, frames, kind, beam_size):
    toy = read_transducer(getattr(nemo_toys, kind)(tmp_path, seed=3))
    search = TransducerSearch(Joint(toy, 1, 0.0), WrittenUnits(toy.tokens, toy.blank))
    test_pieces_and_company_change_nothing(search, frames, beam_size)
    utterance = search.utterance(beam_size)
    search.advance([utterance], [frames[3]])
    spoken = [*utterance.beam[0].last]
    numbers = [frame for _, frame, _ in spoken]
    assert numbers == sorted(numbers)
    # Several at a frame.
    assert len(set(numbers)) < len(numbers)


def test_networks_that_take_one_row(tmp_path, frames):
    """sherpa-onnx runs them so, and nobody may have tried more."""
    nbests = []
    for part in ("", "decoder", "joiner"):
        folder = nemo_toys.rnnt(tmp_path / f"toy{part}", seed=3)
        if part:
            model = onnx.load(folder / f"{part}.onnx")
            for item in model.graph.input:
                axis = 1 if item.name in ("states.1", "onnx::Slice_3") else 0
                item.type.tensor_type.shape.dim[axis].dim_value = 1
            onnx.save(model, folder / f"{part}.onnx")
        toy = read_transducer(folder)
        search = TransducerSearch(Joint(toy, 1, 0.0), WrittenUnits(toy.tokens, toy.blank))
        utterances = [search.utterance(4) for _ in frames]
        search.advance(utterances, frames)
        nbests.append([item.nbest(1, is_final=True)[0].text for item in utterances])
    assert nbests[0] == nbests[1] == nbests[2]
    assert len(set(nbests[0])) > 2


@pytest.mark.parametrize("beam_size", [1, 4])
def test_stable_words_stay(search, frames, beam_size):
    utterance, before, most = search.utterance(beam_size), "", 0
    for frame in frames[3]:
        search.advance([utterance], [frame[None]])
        stable = utterance.stable_text()
        text = utterance.nbest(1, is_final=False)[0].text
        assert stable.startswith(before)
        assert text.startswith(stable)
        before, most = stable, max(most, len(stable.split()))
    assert most > 2


def test_words_are_where_their_units_are(search, frames):
    utterance = search.utterance(1)
    search.advance([utterance], [frames[3]])
    (found,) = utterance.nbest(1, is_final=True)
    starts = [word.start_frame for word in found.words]
    assert starts == sorted(starts)
    assert starts[0] >= 0 and found.words[-1].end_frame <= len(frames[3])
    assert all(0 < word.confidence <= 1 for word in found.words)


def test_a_penalty_for_blanks_finds_more(toy, frames):
    lengths = []
    for penalty in (0.0, 3.0):
        search = TransducerSearch(Joint(toy, 1, penalty), WrittenUnits(toy.tokens))
        utterance = search.utterance(1)
        search.advance([utterance], [frames[3]])
        lengths.append(utterance.beam[0].length)
    assert lengths[0] < lengths[1]


def test_hotwords_are_found_where_they_were_nearly_said(search, toy, frames):
    utterance = search.utterance(4)
    search.advance([utterance], [frames[3]])
    said = utterance.nbest(4, is_final=True)
    other = next(
        word
        for item in said[1:]
        for word in item.text.split()
        if word not in said[0].text.split() and len(word) > 2
    )

    def guide(*hotwords):
        return Guide(Bias(hotwords, WrittenUnits(toy.tokens).texts))

    biased = search.utterance(1, guide(Hotword(other, 60.0)))
    search.advance([biased], [frames[3]])
    best, *_ = biased.nbest(4, is_final=True)
    assert other in best.text.split()
    assert best.score - best.am_score == pytest.approx(
        6 * len(other) * best.text.split().count(other)
    )
    assert best.am_score < said[0].am_score
    nothing = search.utterance(4, guide(Hotword("zzzz", 60.0)))
    search.advance([nothing], [frames[3]])
    assert nothing.nbest(1, is_final=True)[0].text == said[0].text


def test_an_ngram_scores_each_text_and_decides_which_is_best(search, toy, frames, tmp_path):
    texts = WrittenUnits(toy.tokens).texts
    plain = search.utterance(8)
    search.advance([plain], [frames[3]])
    said = plain.nbest(8, is_final=True)
    words = sorted({word for item in said for word in item.text.split()})
    other = next(word for word in words if word not in said[0].text.split())
    path = tmp_path / "words.arpa"
    likely = {"<s>": -99, "</s>": -1, **dict.fromkeys(words, -3.0), other: -0.1}
    lines = [f"{log_prob}\t{word}" for word, log_prob in likely.items()]
    path.write_text(
        "\n".join(["\\data\\", f"ngram 1={len(lines)}", "", "\\1-grams:", *lines, "", "\\end\\"])
    )
    ngrams = load_language_model(LanguageModelConfig(model=str(path), engine="numpy"))
    model = FusedLanguageModel(ngrams, texts)

    def best_of(weight, bonus):
        utterance = search.utterance(8, Guide(fusion=Fusion(model, texts, weight, bonus)))
        for piece in np.array_split(frames[3], 3):
            search.advance([utterance], [piece])
        return utterance.nbest(8, is_final=True)

    for item in (found := best_of(2.0, 0.5)):
        assert item.lm_score == pytest.approx(ngrams.score(item.text.split()))
    best = found[0]
    added = 2.0 * best.lm_score + 0.5 * len(best.words)
    assert best.score - best.am_score == pytest.approx(added, abs=1e-3)
    assert other in best.text.split()
    assert [item.text for item in best_of(0.0, 0.0)] == [item.text for item in said]


def test_a_hypothesis_ends_the_turn_with_its_last_unit(tmp_path, frames):
    toy = read_transducer(nemo_toys.ending(tmp_path, seed=11))
    search = TransducerSearch(Joint(toy, 1, 0.0), WrittenUnits(toy.tokens, toy.blank))
    utterance, found = search.utterance(1), []
    for frame in np.concatenate(frames):
        search.advance([utterance], [frame[None]])
        last = utterance.beam[0].last
        (best,) = utterance.nbest(1, is_final=False)
        found.append(best.ends_turn)
        assert best.ends_turn == (last is not None and toy.tokens[last.unit] == "<EOU>")
    assert 0 < sum(found) < len(found)
