"""The same folder writes the same in sherpa-onnx, whose models these are, and here."""

import re

import nemo_toys
import pytest
import transducer_toys

from conch.wire.errors import OptionError
from lab.baselines.components import live, recorded, text_of, words_of
from lab.baselines.folder_peers import peer_of

BEAM_SIZES = (1, 4)
STEP = 10_240
RECORDINGS = ("offline", "rnnt", "tdt", "unified")
"""Kinds that do not hear recordings as live audio."""
NEMO = {"rnnt": 5, "tdt": 3, "streaming": 5, "unified": 5}
"""Kinds of NeMo's, and a seed with which their texts are lively."""


@pytest.mark.parametrize("beam_size", BEAM_SIZES)
@pytest.mark.parametrize("kind", ["zipformer2", "lstm", "conformer", "offline", *NEMO])
def test_both_write_the_same(tmp_path, waveforms, kind, beam_size):
    toys, frame_s = (nemo_toys, 0.08) if kind in NEMO else (transducer_toys, 0.04)
    folder = getattr(toys, kind)(tmp_path / kind, seed=NEMO.get(kind, 3))
    peer = peer_of("transducer", folder, beam_size, STEP)
    expected = [peer(item) for item in waveforms]
    found = recorded("transducer", folder, waveforms, [beam_size])[beam_size]
    texts = [text_of(item) for item in found]
    # For live audio of NeMo, sherpa-onnx has another beam search.
    if (kind, beam_size) != ("streaming", 4):
        assert texts == [item.text for item in expected]
        for item, heard in zip(found, expected, strict=True):
            starts = words_of(item, "word_starts")
            assert len(starts) == len(heard.text.split())
            frames = {round(time / frame_s) for time in heard.times}
            assert {round(time / frame_s) for time in starts} <= frames
    assert len(set(texts)) == len(texts) and len(" ".join(texts).split()) > 15
    if kind not in RECORDINGS:
        streams = live("transducer", folder, waveforms, STEP, [beam_size])[beam_size]
        assert [text_of(item) for item in streams] == texts


def test_live_audio_in_windows_is_written_the_same(tmp_path, waveforms):
    folder, waveforms = nemo_toys.unified(tmp_path, seed=5), waveforms[:1]
    peer = peer_of("transducer", folder, step=STEP, is_live=True)
    texts = [text_of(item) for item in live("transducer", folder, waveforms, STEP)[1]]
    assert texts == [peer(item).text for item in waveforms]
    assert len(" ".join(texts).split()) > 15
    assert texts != [text_of(item) for item in recorded("transducer", folder, waveforms)[1]]


def test_a_language_is_a_prompt_of_the_encoder(tmp_path, waveforms):
    folder, found, waveforms = nemo_toys.prompted(tmp_path, seed=5), {}, waveforms[1:2]
    for language in ("auto", "ja"):
        peer = peer_of("transducer", folder, step=STEP, language=language)
        expected = [peer(item) for item in waveforms]
        streams = live("transducer", folder, waveforms, STEP, language=language)[1]
        whole = recorded("transducer", folder, waveforms, language=language)[1]
        assert [text_of(item) for item in whole] == [item.text for item in expected]
        assert [text_of(item) for item in streams] == [item.text for item in expected]
        found[language] = " ".join(item.text for item in expected)
        assert "<" not in found[language] and len(found[language].split()) > 15
    assert found["auto"] != found["ja"]
    with pytest.raises(OptionError, match="takes auto, en, ja, zh with this model; sent: 'de'"):
        recorded("transducer", folder, waveforms, language="de")


def test_units_that_say_that_speech_ends_are_no_text(tmp_path, waveforms):
    folder, waveforms = nemo_toys.ending(tmp_path, seed=5), waveforms[:2]
    peer = peer_of("transducer", folder, step=STEP)
    expected = [peer(item).text for item in waveforms]
    assert "<EOU>" in " ".join(expected) and "<EOB>" in " ".join(expected)
    texts = [text_of(item) for item in live("transducer", folder, waveforms, STEP)[1]]
    assert texts == [" ".join(re.sub("<EO[UB]>", "", item).split()) for item in expected]


@pytest.mark.nightly
@pytest.mark.parametrize("published", ["nemotron", "realtime_eou"])
def test_both_write_the_same_with_tensors_of_published_sizes(tmp_path, waveforms, published):
    more = {"sizes": nemo_toys.REALTIME_EOU}
    if published == "nemotron":
        prompts = {"prompts": nemo_toys.PROMPTS, "tags": nemo_toys.TAGS}
        more = {"sizes": nemo_toys.NEMOTRON, **prompts}
    folder, some = nemo_toys.streaming(tmp_path, 5, **more), [waveforms[0][:80_000]]
    expected = [peer_of("transducer", folder, step=STEP)(some[0]).text]
    assert [text_of(item) for item in live("transducer", folder, some, STEP)[1]] == expected
    assert [text_of(item) for item in recorded("transducer", folder, some)[1]] == expected
    assert len(expected[0]) > 20
