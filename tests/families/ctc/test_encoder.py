"""The full-context component against the model it was exported from, on real speech."""

import numpy as np
import pytest
import torch
from recordings import Recording, wer

from conch.component import Row, answers
from conch.families.ctc.encoder import CtcEncoder, CtcEncoderConfig
from conch.families.search.recordings import buckets
from conch.wire.errors import AudioError, ConfigError
from lab.training.ctc.scoring import log_probs_of
from lab.training.ctc.units import greedy_text


def rows(waveforms):
    return [Row({"waveform": waveform}) for waveform in waveforms]


@pytest.fixture(scope="module")
def encoder(exported_ctc) -> CtcEncoder:
    _, path = exported_ctc
    return CtcEncoder(CtcEncoderConfig(model=str(path), intra_threads=2))


def test_equals_the_training_code(exported_ctc, encoder, speech: list[Recording]):
    model, _ = exported_ctc
    waveforms = [item.waveform() for item in speech]
    with torch.inference_mode():
        expected = log_probs_of(model, waveforms)
    for found, wanted in zip(encoder(rows(waveforms)), expected, strict=True):
        assert found["log_probs_lens"] == len(wanted)
        np.testing.assert_allclose(found["log_probs"], wanted, rtol=0, atol=1e-3)


def test_padding_changes_nothing(exported_ctc, encoder, speech):
    _, path = exported_ctc
    together = CtcEncoder(
        CtcEncoderConfig(model=str(path), intra_threads=2, max_padding=0.99, max_batch_s=600)
    )
    waveforms = [item.waveform() for item in speech]
    waveforms += [waveforms[0][:1], waveforms[1][:5_000], waveforms[2][:16_123]]
    for found, alone in zip(together(rows(waveforms)), waveforms, strict=True):
        (expected,) = encoder(rows([alone]))
        assert len(found["log_probs"]) == -(-len(alone) // 320)
        np.testing.assert_allclose(found["log_probs"], expected["log_probs"], rtol=0, atol=1e-3)


def test_buckets_hold_neighbours_in_length_and_everyone_once():
    rng = np.random.default_rng(0)
    for _ in range(50):
        lens = rng.integers(1, 1000, size=rng.integers(0, 40)).tolist()
        found = buckets(lens, 0.2, 3000)
        assert sorted(index for bucket in found for index in bucket) == list(range(len(lens)))
        for bucket in found:
            longest = max(lens[index] for index in bucket)
            assert min(lens[index] for index in bucket) >= 0.8 * longest
            assert longest * len(bucket) <= 3000


@pytest.mark.parametrize("seconds", [0, 41])
def test_a_bad_length_fails_alone(encoder, speech, seconds):
    good = speech[0].waveform()
    bad, answer = answers(encoder, rows([np.zeros(seconds * 16_000, np.float32), good]))
    assert isinstance(bad, AudioError)
    assert f"sent: {seconds} s" in str(bad)
    assert np.isfinite(answer["log_probs"]).all()


def test_the_longest_segment(encoder):
    longest = np.zeros(40 * 16_000, np.float32)
    sent = [Row({"waveform": longest}), Row({"waveform": np.append(longest, np.float32(0))})]
    taken, refused = answers(encoder, sent)
    assert taken["log_probs_lens"].item() == len(taken["log_probs"]) > 0
    assert isinstance(refused, AudioError)
    assert "at most 40 s of audio" in str(refused)


def test_a_file_that_is_no_model_is_named(tmp_path):
    missing = tmp_path / "missing.onnx"
    with pytest.raises(ConfigError, match=r"missing\.onnx does not exist"):
        CtcEncoder(CtcEncoderConfig(model=str(missing)))
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no graph")
    with pytest.raises(ConfigError, match=r"cannot load .*broken\.onnx"):
        CtcEncoder(CtcEncoderConfig(model=str(broken)))
    silero = pytest.importorskip("conch.families.silero.vad")
    with pytest.raises(ConfigError, match=r"not a graph of lab\.training\.ctc\.export"):
        CtcEncoder(CtcEncoderConfig(model=str(silero.model_path(""))))


def test_the_shipped_model_hears_real_speech(speech):
    """Greedy, and far from perfect, but what was said."""
    encoder = CtcEncoder(CtcEncoderConfig(intra_threads=2))
    texts = [
        greedy_text(answer["log_probs"].argmax(1).tolist(), encoder.vocabulary.texts)
        for answer in encoder(rows([item.waveform() for item in speech]))
    ]
    rates = [wer(item.text, text) for item, text in zip(speech, texts, strict=True)]
    assert np.mean(rates) < 0.5
