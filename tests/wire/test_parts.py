from dataclasses import replace

import numpy as np
import pytest
from audio_files import audio_file
from plain_components import PlainComponents
from plain_recognizer import recognizer_on
from spoken_components import SpokenComponents, made

from conch.recognition.request import RecognitionRequest
from conch.wire.parts import joined_parts
from conch.wire.result import Stage, Transcript

RATE = 16_000
PAUSE = np.zeros(3 * RATE, np.float32)
LONG_PAUSE = np.zeros(70 * RATE, np.float32)
"""Longer than two blocks: the last segment is out before all of the audio is read."""


def said(level: float) -> np.ndarray:
    return np.full(RATE, level, np.float32)


def wav(channels: np.ndarray) -> bytes:
    return audio_file(channels.T, RATE, "FLOAT")


async def whole_and_parts(
    waveform: np.ndarray, components: PlainComponents | None = None, **parameters
) -> tuple[Transcript, list[Transcript]]:
    if waveform.ndim == 1:
        request = RecognitionRequest(wav=waveform[np.newaxis], parameters=parameters)
    else:
        request = RecognitionRequest(
            audio=np.array([[wav(waveform)]], object), parameters=parameters
        )
    recognizer = recognizer_on(PlainComponents(), max_segments_in_flight=1)
    (whole,) = await recognizer.recognize(request, components or PlainComponents())
    stream = recognizer.stream(request, components or PlainComponents())
    return whole, [part async for part in stream]


def timeless(transcript: Transcript) -> Transcript:
    stages = {name: Stage(stage.calls, 0.0) for name, stage in transcript.stages.items()}
    return replace(transcript, stages=stages)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"nbest": 4}, {"nbest": 2, "rescore": True}, {"word_timestamps": True}, {"vad": False}],
)
@pytest.mark.parametrize(
    "waveform",
    [
        np.concatenate([PAUSE, said(0.1), PAUSE, said(0.2), PAUSE, said(0.3)]),
        np.concatenate([said(0.1), PAUSE, said(0.2), LONG_PAUSE]),
        PAUSE,
    ],
    ids=["three segments", "a long pause at the end", "silence"],
)
async def test_joined_parts_are_the_one_answer(waveform, parameters):
    whole, parts = await whole_and_parts(waveform, **parameters)
    assert timeless(joined_parts(parts, parameters.get("nbest", 1))) == timeless(whole)


async def test_a_part_holds_one_segment_and_the_last_one_none():
    waveform = np.concatenate([said(0.1), PAUSE, said(0.2), LONG_PAUSE])
    _, parts = await whole_and_parts(waveform)
    assert [len(part.segments) for part in parts] == [1, 1, 0]
    assert parts[1].duration <= parts[2].duration == len(waveform) / RATE


async def test_of_a_stream_that_broke_off_it_is_what_was_known():
    _, parts = await whole_and_parts(np.concatenate([said(0.1), PAUSE, said(0.2)]))
    assert joined_parts(parts[:1]) == parts[0]


async def test_a_segment_without_a_text_is_a_part_where_speech_was_heard_in_it():
    components = SpokenComponents(lambda words, seconds: [w for w in words if w.text < "e"])
    whole, parts = await whole_and_parts(made("abcd.efgh.ab"), components)
    assert [[item.text for item in part.segments] for part in parts] == [
        ["a b c d"],
        [""],
        ["a b"],
        [],
    ]
    assert [left.heard for left in parts[1].unrecognised] == ["e f g h"]
    joined = joined_parts([Transcript.from_json(part.to_json()) for part in parts])
    assert timeless(joined) == timeless(whole)
    assert joined.text == "a b c d a b"
    assert joined.unrecognised == parts[1].unrecognised
    assert len(joined.warnings) == 1


@pytest.mark.parametrize("nbest", [1, 3])
async def test_the_joined_parts_of_a_call_are_the_one_answer(nbest):
    one = np.concatenate([PAUSE, said(0.1), PAUSE, PAUSE, said(0.3), LONG_PAUSE])
    other = np.concatenate([said(0.4), PAUSE, PAUSE, said(0.2), LONG_PAUSE, PAUSE])
    whole, parts = await whole_and_parts(np.stack([one, other]), channels="split", nbest=nbest)
    assert [len(part.segments) for part in parts] == [1, 1, 1, 1, 0]
    assert [part.segments[0].channel for part in parts[:4]] == [2, 1, 2, 1]
    assert timeless(joined_parts(parts, nbest)) == timeless(whole)
    assert [channel.number for channel in whole.channels] == [1, 2]
