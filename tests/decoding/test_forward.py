"""Scores of given texts, by enumeration and by torch, on made and on real log probabilities."""

import math
from collections import defaultdict
from itertools import groupby, product
from pathlib import Path

import numpy as np
import pytest
import torch
from ctc_export import exported
from ctc_paths import log_probs_of
from recordings import recordings_of

from conch.component import Row, bytes_array
from conch.decoding.forward import forward_scores, text_scores
from conch.decoding.units import Characters, Subwords
from conch.families.ctc.decoder import CtcDecoder, CtcDecoderConfig
from conch.families.ctc.encoder import CtcEncoder, CtcEncoderConfig
from conch.language import language_model_words
from conch.wire.errors import InvalidRequestError, OptionError
from lab.training.ctc.model import CtcModel, CtcModelConfig
from lab.training.ctc.units import learned_subwords

DATA = Path(__file__).parents[1] / "data"
SENTENCES = ["the cat sat on the mat", "the hat that the cat had", "cats and hats"]


def random_log_probs(seed: int, frames: int, size: int, sharpness: float = 2.0) -> np.ndarray:
    """Return float32 `[frames, size]`."""
    logits = np.random.default_rng(seed).standard_normal((frames, size)) * sharpness
    logits -= np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return logits.astype(np.float32)


def every_score(log_probs: np.ndarray) -> dict[tuple[int, ...], float]:
    """Return the log of the summed probabilities of every text's alignments, one by one."""
    found: dict[tuple[int, ...], list[float]] = defaultdict(list)
    rows = log_probs.tolist()
    for path in product(range(log_probs.shape[1]), repeat=len(rows)):
        score = sum(row[unit] for row, unit in zip(rows, path, strict=True))
        found[tuple(unit for unit, _ in groupby(path) if unit)].append(score)
    return {text: float(np.logaddexp.reduce(scores)) for text, scores in found.items()}


def by_torch(log_probs: np.ndarray, texts: list[list[int]]) -> np.ndarray:
    """Return what torch's CTC loss in float64 makes of each text."""
    frames = torch.from_numpy(log_probs.astype(np.float64))
    losses = torch.nn.functional.ctc_loss(
        frames[:, None].expand(-1, len(texts), -1),
        torch.tensor([unit for text in texts for unit in text]),
        torch.full((len(texts),), len(frames)),
        torch.tensor([len(text) for text in texts]),
        reduction="none",
    )
    return -losses.numpy()


def sent(log_probs: np.ndarray, texts: list[str], length: int | None = None, **parameters) -> Row:
    lens = np.array([len(log_probs) if length is None else length], np.int32)
    inputs = {"log_probs": log_probs, "log_probs_lens": lens, "texts": bytes_array(texts)}
    return Row(inputs, parameters)


# From -400 a frame on, logarithms have to be added; at -720 exp would round, at -2000 give 0.
@pytest.mark.parametrize("offset", [0.0, -400.0, -720.0, -2000.0])
@pytest.mark.parametrize(("frames", "size"), [(1, 3), (4, 4), (5, 4), (7, 3)])
def test_every_text_of_few_frames(frames, size, offset):
    log_probs = random_log_probs(frames, frames, size) + np.float32(offset)
    expected = every_score(log_probs)
    texts = [text for count in range(frames + 2) for text in product(range(1, size), repeat=count)]
    assert set(expected) < set(texts)
    scores = forward_scores(log_probs, texts)
    assert scores.dtype == np.float64
    for text, score in zip(texts, scores, strict=True):
        assert score == pytest.approx(expected.get(text, -math.inf), rel=1e-12)


def test_units_that_a_frame_rules_out():
    log_probs = random_log_probs(0, 5, 4)
    log_probs[1, 2] = log_probs[3, 0] = -np.inf
    log_probs[2, :2] = -10_000
    log_probs[4] = -np.inf, 0, -np.inf, -730
    expected = every_score(log_probs)
    for text, score in zip(expected, forward_scores(log_probs, list(expected)), strict=True):
        assert score == pytest.approx(expected[text], rel=1e-12)


def test_all_texts_together_have_the_probability_one():
    log_probs = random_log_probs(3, 6, 4).astype(np.float64)
    texts = [text for count in range(7) for text in product(range(1, 4), repeat=count)]
    assert np.logaddexp.reduce(forward_scores(log_probs, texts)) == pytest.approx(0, abs=1e-6)


def test_no_unit_and_no_frame():
    log_probs = random_log_probs(4, 300, 5)
    blanks = log_probs[:, 0].sum(dtype=np.float64)
    np.testing.assert_allclose(forward_scores(log_probs, [[], [1], []])[::2], blanks, rtol=1e-12)
    assert forward_scores(log_probs[:0], [[], [1]]).tolist() == [0, -np.inf]
    assert forward_scores(log_probs, []).shape == (0,)


def test_a_text_too_long_for_the_frames_is_impossible():
    log_probs = random_log_probs(5, 4, 4)
    scores = forward_scores(log_probs, [[1, 2, 3, 1, 2], [1, 1, 2, 2], [1, 1, 2], [1, 2, 3, 1]])
    assert np.isneginf(scores).tolist() == [True, True, False, False]


def test_what_are_no_log_probabilities_still_have_scores():
    logits = random_log_probs(6, 40, 5) + np.float32(60)
    texts = [[1, 2, 3], [1, 2, 2, 3], []]
    np.testing.assert_allclose(forward_scores(logits, texts), by_torch(logits, texts), rtol=1e-12)


@pytest.fixture(scope="module")
def heard() -> list[tuple[np.ndarray, str]]:
    """Return real log probabilities and what was said."""
    encoder = CtcEncoder(CtcEncoderConfig(intra_threads=1))
    return [(encoder.encode([item.waveform()])[0], item.text) for item in recordings_of(DATA)]


def units_of(text: str) -> list[int]:
    return Characters().encode(" ".join(language_model_words(text)))


def test_real_speech_by_torch(heard):
    texts = [units_of(text) for _, text in heard]
    texts += [[], units_of("zz zz zz"), units_of("qx jz " * 12), texts[0][::-1]]
    lowest = 0.0
    for index, (log_probs, _) in enumerate(heard):
        scores = forward_scores(log_probs, texts)
        np.testing.assert_allclose(scores, by_torch(log_probs, texts), rtol=1e-10)
        assert scores.argmax() == index
        lowest = min(lowest, scores[np.isfinite(scores)].min())
    assert lowest < -1400, "the smallest float64 above 0 is e^-745"


def test_a_list_equals_one_by_one(heard):
    log_probs, said = heard[-1]
    texts = [said, "", "he", "qx jz " * 20, said[: len(said) // 2], said + " and more"]
    together = text_scores(log_probs, texts, Characters())
    alone = [text_scores(log_probs, [text], Characters())[0] for text in texts]
    np.testing.assert_allclose(together, alone, rtol=1e-13)
    assert len(set(together)) == len(texts)


def test_a_text_is_scored_as_it_is_spoken():
    log_probs = random_log_probs(7, 60, len(Characters.vocab))
    pairs = [
        ("Don't -- stop, 2 Cats!", "don't stop two cats"),
        ("  a   b ", "a b"),
        ("Café", "caf"),
        ("東京 a 東京 b", "a b"),
        ("?!", ""),
    ]
    written, spoken = (list(column) for column in zip(*pairs, strict=True))
    scores = text_scores(log_probs, written + spoken, Characters()).tolist()
    assert scores[: len(pairs)] == scores[len(pairs) :]
    expected = forward_scores(log_probs, [Characters().encode(text) for text in spoken])
    np.testing.assert_allclose(scores[len(pairs) :], expected, rtol=1e-13)


@pytest.fixture(scope="module")
def subwords() -> Subwords:
    return learned_subwords(SENTENCES, 30)


def test_subwords(subwords):
    log_probs = random_log_probs(8, 40, len(subwords.vocab), sharpness=4)
    encoded = [subwords.encode(text) for text in SENTENCES]
    assert max(len(subwords.vocab[unit]) for units in encoded for unit in units) > 2
    scores = text_scores(log_probs, [text.title() + "." for text in SENTENCES], subwords)
    np.testing.assert_allclose(scores, by_torch(log_probs, encoded), rtol=1e-10)


def test_a_decoder_of_subwords_scores_them(subwords, tmp_path):
    pytest.importorskip("onnx")
    size = len(subwords.vocab)
    config = CtcModelConfig(vocab_size=size, model_size=16, num_heads=2, num_layers=1, stack=2)
    path = exported(CtcModel(config).eval(), subwords, tmp_path)
    decoder = CtcDecoder(CtcDecoderConfig(model=str(path), graph="none", language_model="none"))
    log_probs = random_log_probs(9, 40, size)
    (answer,) = decoder([sent(log_probs, SENTENCES)])
    expected = by_torch(log_probs, [subwords.encode(text) for text in SENTENCES])
    np.testing.assert_allclose(answer["text_scores"], expected, rtol=1e-6)


@pytest.fixture(scope="module")
def decoder(letters) -> CtcDecoder:
    return CtcDecoder(CtcDecoderConfig(**letters))


def test_rows_with_texts_are_scored_and_others_decoded(decoder):
    log_probs = log_probs_of("-a--b ccc-c--", 0.6)
    # Options of a search are not looked at.
    row = sent(log_probs, ["ab c", "Ab cc!", "c", "", "ab " * 9], beam_size=0, decoder="none")
    plain = {name: array for name, array in row.inputs.items() if name != "texts"}
    scored, decoded, nothing = decoder([row, Row(plain), sent(log_probs, [])])
    assert list(scored) == ["text_scores"]
    scores = scored["text_scores"]
    assert scores.dtype == np.float32
    assert scores.argmax() == 1
    assert np.isneginf(scores).tolist() == [False] * 4 + [True]
    assert decoded["hypotheses"].tolist() == [b"ab cc"]
    assert scores[1] >= decoded["am_scores"][0] - 1e-4, "a beam leaves alignments out"
    assert nothing["text_scores"].shape == (0,)


def test_padding_is_not_scored(decoder):
    log_probs = log_probs_of("-a--b ccc-c--")
    padded, short = decoder([sent(log_probs, ["ab"], 5), sent(log_probs[:5], ["ab"])])
    assert padded["text_scores"].tolist() == short["text_scores"].tolist()
    (none,) = decoder([sent(log_probs, ["", "a"], 0)])
    assert none["text_scores"].tolist() == [0, -np.inf]


def test_what_cannot_be_scored_fails_alone(decoder):
    good = log_probs_of("ab")
    rows = [sent(good, ["ab"], language="de"), sent(good, ["ab"], 3), sent(good, ["ab"])]
    language, length, scored = decoder(rows)
    assert isinstance(language, OptionError)
    assert str(language).startswith("option 'language' takes auto or en with this CTC model")
    assert isinstance(length, InvalidRequestError)
    assert scored["text_scores"].shape == (1,)
