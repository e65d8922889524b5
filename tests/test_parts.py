import asyncio
from dataclasses import replace

import numpy as np
import pytest
from plain_components import PlainComponents

from conch.orchestrator import OrchestratorConfig, Recognizer, SpeechRequest
from conch.parts import joined_parts
from conch.result import Stage, Transcript

RATE = 16_000
PAUSE = np.zeros(3 * RATE, np.float32)
LONG_PAUSE = np.zeros(70 * RATE, np.float32)
"""Longer than two blocks: the last segment is out before all of the audio is read."""


def said(level: float) -> np.ndarray:
    return np.full(RATE, level, np.float32)


def whole_and_parts(waveform: np.ndarray, **parameters) -> tuple[Transcript, list[Transcript]]:
    request = SpeechRequest(wav=waveform[np.newaxis], parameters=parameters)

    async def both() -> tuple[Transcript, list[Transcript]]:
        recognizer = Recognizer(OrchestratorConfig(max_segments_in_flight=1), PlainComponents())
        (whole,) = await recognizer.recognize(request, PlainComponents())
        stream = recognizer.stream(request, PlainComponents())
        return whole, [part async for part in stream]

    return asyncio.run(both())


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
def test_joined_parts_are_the_one_answer(waveform, parameters):
    whole, parts = whole_and_parts(waveform, **parameters)
    assert timeless(joined_parts(parts, parameters.get("nbest", 1))) == timeless(whole)


def test_a_part_holds_one_segment_and_the_last_one_none():
    waveform = np.concatenate([said(0.1), PAUSE, said(0.2), LONG_PAUSE])
    _, parts = whole_and_parts(waveform)
    assert [len(part.segments) for part in parts] == [1, 1, 0]
    assert parts[1].duration <= parts[2].duration == len(waveform) / RATE


def test_of_a_stream_that_broke_off_it_is_what_was_known():
    _, parts = whole_and_parts(np.concatenate([said(0.1), PAUSE, said(0.2)]))
    assert joined_parts(parts[:1]) == parts[0]
