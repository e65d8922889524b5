"""Speakers of recordings whose channels are split."""

import asyncio

import numpy as np
from audio_files import audio_file
from plain_components import PlainComponents
from plain_recognizer import recognizer_on
from plain_streams import audio

from conch.recognition.request import RecognitionRequest

LEFT, RIGHT = audio("..1111.........55555..."), audio("........3333...........")


def answer(**options):
    components = PlainComponents()
    stereo = np.stack((LEFT, RIGHT), axis=1)
    buffer = audio_file(stereo, 16_000, "FLOAT")
    file = np.array([[buffer]], dtype=object)
    request = RecognitionRequest(audio=file, parameters={"channels": "split", **options})
    (found,) = asyncio.run(recognizer_on(components).recognize(request, components))
    return found, components


def test_a_channel_is_a_speaker():
    found, components = answer(speakers="auto")
    assert [(item.channel, item.speaker) for item in found.segments] == [
        (1, "A"),
        (2, "B"),
        (1, "A"),
    ]
    assert [turn.speaker for turn in found.turns] == ["A", "B", "A"]
    assert not {"speaker_segmentation", "speaker_embedding"} & set(components.calls)


def test_with_a_number_each_channel_has_its_own():
    found, components = answer(speakers=2)
    assert [(item.channel, item.speaker) for item in found.segments] == [
        (1, "A"),
        (2, "B"),
        (1, "C"),
    ]
    assert "speaker_embedding" in components.calls
