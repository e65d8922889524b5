"""Hotwords in Whisper's text, on a real server: offline and live."""

from pathlib import Path

import numpy as np
import pytest
from recordings import recordings_of

from conch.wire.errors import ConchError
from conch.wire.result import text_of_words

pytestmark = pytest.mark.server

WHISPER = {"decoder": "attention"}
[SPOKEN] = recordings_of(Path(__file__).parents[1] / "data" / "hotwords")
LIST = "Syme, Prynne, Uncas, Timaeus, Poyser, Soames"


def test_a_name_is_spelled_as_the_request_spells_it_and_the_rest_stays(client):
    plain = client.transcribe(SPOKEN.path, **WHISPER).text
    hot = client.transcribe(SPOKEN.path, hotwords=LIST, word_timestamps=True, **WHISPER)
    assert "Syme" not in plain
    assert hot.text == plain.replace(plain.split("'")[0], "Syme", 1)
    assert " ".join(word.text for word in hot.words) == hot.text
    loud = client.transcribe(SPOKEN.path, hotwords=LIST.upper(), **WHISPER).text
    assert loud.startswith("SYME's egotism")


@pytest.mark.parametrize("names", [LIST, LIST.upper()])
def test_names_are_read_before_the_audio_and_written_as_they_are_sent(client, names):
    found = client.transcribe(SPOKEN.path, names=names, **WHISPER)
    assert found.text.startswith(f"{names.split(',')[0]}'s egotism")


def streamed(client, waveform, **options):
    """Send a stream in chunks of half a second, and return all answers, that of the end last."""
    with client.live(mode="two_pass", adaptive=False, **WHISPER, **options) as stream:
        answers = [stream.send(waveform[at : at + 8_000]) for at in range(0, len(waveform), 8_000)]
        return [*answers, stream.finish()]


def rolling_texts(answers):
    """Return what rolling passes have found, in each answer: not what the first pass heard."""
    open_ones = [answer.utterance for answer in answers if answer.utterance]
    return [text_of_words((*item.firm, *item.tentative)) for item in open_ones if item.heard_until]


def test_a_hotword_is_in_live_text_before_the_end_and_in_the_final_text(client):
    # Not by the name: rolling passes write Simes, without the apostrophe of a possessive, and Syme
    # in its place would lose the last sound.
    hotwords, waveform = f"{LIST}, egotism", SPOKEN.waveform()
    first_plain = rolling_texts(streamed(client, waveform[:48_000]))[0]
    *answers, final = streamed(client, waveform, hotwords=hotwords)
    first_hot = rolling_texts(answers)[0]
    assert "Agatism" in first_plain
    assert first_hot == first_plain.replace("Agatism", "Egotism")
    assert [segment.passes for segment in final.segments] == [2]
    assert final.text == client.transcribe(SPOKEN.path, hotwords=hotwords, **WHISPER).text
    assert final.text.startswith("Syme's egotism")


@pytest.mark.parametrize("vad", [True, False])
def test_no_name_leaks_into_silence_or_noise(client, vad):
    noise = 0.1 * np.random.default_rng(0).standard_normal(48_000).astype(np.float32)
    options = {"vad": vad, "coverage": False, **WHISPER}
    for sound in (np.zeros(48_000, np.float32), noise):
        plain = client.transcribe(sound, **options).text
        hot = client.transcribe(sound, hotwords=LIST, **options).text
        assert hot == plain


def test_a_faulty_list_is_refused(client):
    with pytest.raises(ConchError, match="option 'hotwords' takes a number after a colon"):
        client.transcribe(SPOKEN.path, hotwords="Syme:much")
