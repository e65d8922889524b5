"""Everything that Whisper does, done by Moonshine on the real server."""

from itertools import pairwise

import numpy as np
import pytest
from recordings import Recording, in_turn, wer

from conch.wire.errors import OptionError

pytestmark = pytest.mark.server

OPTIONS = {"decoder": "moonshine"}


def test_speech_becomes_text_with_words_and_hypotheses(client, recordings: list[Recording]):
    errors = []
    for item in recordings:
        found = client.transcribe(item.path, nbest=3, word_timestamps=True, **OPTIONS)
        errors.append(wer(item.text, found.text))
        assert found.language == "en"
        assert " ".join(word.text for word in found.words) == found.text
        assert all(0 <= word.start < word.end <= found.duration for word in found.words)
        assert all(0 < word.confidence <= 1 for word in found.words)
        assert all(one.end <= two.start + 1e-3 for one, two in pairwise(found.words))
        assert 1 <= len(found.nbest) <= 3
        assert found.nbest[0].text == found.text
        assert found.nbest[0].score == max(item.score for item in found.nbest)
    assert np.mean(errors) < 0.06


def test_each_opinion_scores_its_hypotheses(client, recordings):
    found = client.transcribe(recordings[0].path, accuracy="best", nbest=5, **OPTIONS)
    assert len(found.nbest) > 1
    assert all(item.lm_score is not None for item in found.nbest)
    assert all(item.ctc_score is not None for item in found.nbest)
    assert wer(recordings[0].text, found.text) < 0.1


def test_a_hotword_is_written_for_what_sounds_like_it(client, recordings):
    path = recordings[2].path
    plain = client.transcribe(path, **OPTIONS).text
    hot = client.transcribe(path, hotwords="Krae:20, Prynne, Uncas", **OPTIONS).text
    assert not plain.startswith("Krae")
    assert hot.startswith("Krae ")
    assert hot.split()[1:] == plain.split()[1:]


def test_a_long_recording_comes_in_parts_and_loses_nothing(client, recordings):
    talk = in_turn(recordings, 0.5)
    said = " ".join(item.text for item in recordings)
    whole = client.transcribe(talk, **OPTIONS)
    assert wer(said, whole.text) < 0.06
    parts = [part.text for part in client.stream(talk, **OPTIONS) if part.text]
    assert len(parts) > 1
    assert " ".join(parts) == whole.text


def test_it_passes_over_live_speech_while_somebody_speaks(client, recordings):
    speech = recordings[0].waveform()
    with client.live(mode="two_pass", adaptive=False, **OPTIONS) as stream:
        answers = [stream.send(speech[at : at + 8_000]) for at in range(0, len(speech), 8_000)]
        final = stream.finish()
    assert any(item.utterance and item.utterance.heard_until for item in answers)
    assert final.text == client.transcribe(speech, **OPTIONS).text
    assert [segment.passes for segment in final.segments] == [2] * len(final.segments)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"language": "de"}, "option 'language' takes auto or en with decoder moonshine"),
        ({"task": "translate"}, "option 'task' goes with decoder attention"),
        ({"prompt": "Blake"}, "option 'prompt' goes with decoder attention"),
        ({"languages": "en,de"}, "option 'languages' goes with decoder attention"),
        ({"beam_size": 33}, "option 'beam_size' takes at most 32 with decoder moonshine"),
        ({"attention_rescore": True}, "option 'attention_rescore' goes with decoder ctc or wfst"),
    ],
)
def test_what_it_cannot_do_is_an_error_of_the_option(client, recordings, options, error):
    with pytest.raises(OptionError, match=error):
        client.transcribe(recordings[0].path, **options, **OPTIONS)


def test_silence_and_noise_have_no_text(client):
    noise = np.random.default_rng(0).normal(0, 0.05, 80_000).astype(np.float32)
    for waveform in (np.zeros(80_000, np.float32), noise):
        assert client.transcribe(waveform, vad=False, **OPTIONS).text == ""
