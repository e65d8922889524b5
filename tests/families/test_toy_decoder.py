"""A new decoder is one folder and one line: it runs offline and live on the paths of all."""

import numpy as np
import pytest
from plain_recognizer import recognized
from plain_streams import audio, streaming

import conch.families
from conch.families import FAMILIES
from tests.families.toy import FAMILY
from tests.families.toy.recogniser import ToyComponents


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conch.families, "FAMILIES", (*FAMILIES, FAMILY))


def test_a_recording_is_recognised_by_the_toys_components_alone():
    components = ToyComponents()
    wav = audio("..12......3...")
    transcript = recognized(components, wav, decoder="toy", word_timestamps=True)
    first, second = (segment.text.split() for segment in transcript.segments)
    assert set(first) == {"loud0.1", "loud0.2"}
    assert set(second) == {"loud0.3"}
    assert [word.text for word in transcript.words] == transcript.text.split()
    assert set(components.calls) == {"vad", "toy_encoder", "toy_decoder"}
    assert transcript.language == "en"


def test_what_is_for_texts_without_punctuation_passes_it_by():
    components = ToyComponents()
    recognized(components, audio("..12..."), decoder="toy", punctuate=True)
    assert "punctuator" not in components.calls


def test_its_texts_are_scored_again_by_others():
    components = ToyComponents()
    one = {"hypotheses": np.array([b"one", b"two"], object), "scores": np.zeros(2, np.float32)}
    toy_decoder = components.toy_decoder
    components.toy_decoder = lambda *args: {**toy_decoder(*args), **one}
    options = {"decoder": "toy", "rescore": True, "rescorer": "ngram"}
    transcript = recognized(components, audio("..12..."), **options)
    assert transcript.text == "two"
    assert transcript.nbest[0].lm_score == -10.0


@pytest.mark.parametrize("vad", [True, False])
async def test_a_live_stream_is_heard_by_the_toy_alone(vad):
    async with streaming(ToyComponents(), decoder="toy", vad=vad, word_timestamps=True) as (
        client,
        components,
    ):
        answers = [await client.send(audio(letter), ends=not letter) for letter in [*"12..3.", ""]]
    assert [answer.text for answer in answers[:2]] == ["loud0.1", "loud0.1 loud0.2"]
    assert answers[1].stable == "loud0.1"
    final = answers[-1]
    assert final.is_final
    assert [segment.text for segment in final.segments] == ["loud0.1 loud0.2", "loud0.3"]
    assert [segment.endpoint for segment in final.segments] == ["silence", "end"]
    assert final.segments[1].words[0].start == pytest.approx(4 * 0.64 if vad else 3 * 0.64, abs=0.7)
    assert set(components.calls) == {*(("vad",) if vad else ()), "toy_encoder", "toy_decoder"}


async def test_an_utterance_of_two_passes_is_the_toys_in_both():
    async with streaming(ToyComponents(), mode="two_pass", decoder="toy") as (client, components):
        await client.send(audio("12"))
        final = await client.send(audio("..."), ends=True)
    assert [segment.passes for segment in final.segments] == [2]
    assert set(components.calls) == {"vad", "toy_encoder", "toy_decoder"}
