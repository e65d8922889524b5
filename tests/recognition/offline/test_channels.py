"""Recordings of several channels, and what is wrong with recordings, on the offline path."""

import asyncio

import numpy as np
import pytest
from audio_files import audio_file
from plain_components import PlainComponents
from plain_recognizer import recognizer_on

from conch.recognition.metrics import AUDIO_SECONDS
from conch.recognition.request import RecognitionRequest
from conch.wire.errors import ComponentError, OptionError

RATE = 16_000


def said(*spans: tuple[float, float, float], seconds: float = 60.0) -> np.ndarray:
    """Silence, with a level from one second to another for each span."""
    waveform = np.zeros(int(seconds * RATE), np.float32)
    for start, end, level in spans:
        waveform[int(start * RATE) : int(end * RATE)] = level
    waveform[1::2] *= -1
    return waveform


ONE = said((3, 5, 0.1), (20, 22, 0.3), (50, 52, 0.5))
OTHER = said((9, 12, 0.2), (30, 31, 0.4))


def call(*channels: np.ndarray, **parameters) -> RecognitionRequest:
    buffer = audio_file(np.stack(channels, axis=1), RATE, "FLOAT")
    audio = np.array([[buffer]], dtype=object)
    return RecognitionRequest(audio=audio, parameters=parameters)


def recognize(components: PlainComponents, request: RecognitionRequest, **limits):
    recognizer = recognizer_on(components, **limits)
    (transcript,) = asyncio.run(recognizer.recognize(request, components))
    return transcript, recognizer


def test_each_channel_has_its_transcript_and_the_text_is_in_order_of_time():
    transcript, _ = recognize(PlainComponents(), call(ONE, OTHER, channels="split"))
    assert transcript.text == " ".join(f"spoken 0.{level}0 0" for level in (1, 2, 3, 4, 5))
    assert [segment.channel for segment in transcript.segments] == [1, 2, 1, 2, 1]
    starts = [segment.start for segment in transcript.segments]
    assert starts == sorted(starts)
    first, second = transcript.channels
    assert (first.number, first.text) == (1, "spoken 0.10 0 spoken 0.30 0 spoken 0.50 0")
    assert (second.number, second.text) == (2, "spoken 0.20 0 spoken 0.40 0")
    assert (first.score, second.score) == (-3.0, -2.0)
    assert transcript.nbest[0].score == -5.0
    assert transcript.warnings == ()


def test_the_text_of_channels_has_the_steps_too():
    request = call(ONE, OTHER, channels="split", replace="spoken=>Said:")
    transcript, _ = recognize(PlainComponents(), request)
    assert transcript.text == " ".join(f"Said: 0.{level}0 0" for level in (1, 2, 3, 4, 5))
    assert [item.text for item in transcript.channels] == [
        "Said: 0.10 0 Said: 0.30 0 Said: 0.50 0",
        "Said: 0.20 0 Said: 0.40 0",
    ]


def test_the_duration_of_two_channels_counts_once():
    transcript, recognizer = recognize(PlainComponents(), call(ONE, OTHER, channels="split"))
    assert transcript.duration == 60.0
    counted = recognizer.runtime.metrics.drain()
    seconds = [value for (family, _), value in counted.items() if family == AUDIO_SECONDS]
    assert seconds == [60.0]


def test_one_channel_by_its_number():
    transcript, _ = recognize(PlainComponents(), call(ONE, OTHER, channels=2))
    assert transcript.text == "spoken 0.20 0 spoken 0.40 0"
    assert {segment.channel for segment in transcript.segments} == {2}
    assert [channel.number for channel in transcript.channels] == [2]


def test_mixed_channels_have_no_number():
    transcript, _ = recognize(PlainComponents(), call(ONE, OTHER))
    assert len(transcript.segments) == 5
    assert {segment.channel for segment in transcript.segments} == {0}
    assert transcript.channels == ()


def test_a_silent_channel_is_there_without_a_text():
    silent = np.zeros_like(ONE)
    transcript, _ = recognize(PlainComponents(), call(ONE, silent, channels="split"))
    assert [channel.text == "" for channel in transcript.channels] == [False, True]
    assert transcript.warnings == ("channel 2 is silent: every sample is 0",)


def test_all_channels_are_in_flight_together_within_the_limit():
    components = PlainComponents()
    components.meet("moonshine_encoder", 2)
    request = call(ONE, OTHER, channels="split")
    transcript, _ = recognize(components, request, max_segments_in_flight=2)
    assert len(transcript.segments) == 5
    encoded = components.waveforms("moonshine_encoder")[:2]
    assert sorted(round(float(waveform.max()), 1) for waveform in encoded) == [0.1, 0.2]


async def test_a_stream_of_two_channels_waits_for_the_slower_one():
    components = PlainComponents()
    release = asyncio.Event()

    async def hold_the_first(model):
        inputs = components.inputs[-1]
        if model == "moonshine_encoder" and round(float(inputs["waveform"].max()), 1) == 0.1:
            await asyncio.wait_for(release.wait(), 10)
        elif model == "moonshine_decoder":
            release.set()

    components.before = hold_the_first
    expected = [f"spoken 0.{level}0 0" for level in (1, 2, 3, 4, 5)]
    recognizer = recognizer_on(components)
    request = call(ONE, OTHER, channels="split")
    assert [part.text async for part in recognizer.stream(request, components)] == [*expected, ""]


def test_one_failing_channel_fails_the_request_and_stops_the_others():
    components = PlainComponents()

    async def break_the_second(model):
        inputs = components.inputs[-1]
        if model == "moonshine_encoder" and round(float(inputs["waveform"].max()), 1) == 0.2:
            raise ComponentError("moonshine_encoder: out of order")

    components.before = break_the_second
    with pytest.raises(ComponentError, match="out of order"):
        recognize(components, call(ONE, OTHER, channels="split"))
    assert components.in_flight == 0


def test_a_channel_that_is_not_there_makes_no_call():
    components = PlainComponents()
    with pytest.raises(OptionError, match="AUDIO has 2 channels; sent: 3"):
        recognize(components, call(ONE, OTHER, channels=3))
    assert components.calls == []


async def test_what_is_wrong_comes_with_the_answer_and_with_a_streams_last_part():
    request = call(np.zeros(RATE, np.float32))
    warnings = ("the audio is silent: every sample is 0", "no speech was found")
    recognizer = recognizer_on(PlainComponents())
    (whole,) = await recognizer.recognize(request, PlainComponents())
    assert whole.warnings == warnings
    (last,) = [part async for part in recognizer.stream(request, PlainComponents())]
    assert last.warnings == warnings


async def test_a_batch_says_of_each_row_what_is_wrong_with_it():
    wav = np.stack([said((1, 3, 0.1), seconds=5.0), np.zeros(5 * RATE, np.float32)])
    recognizer = recognizer_on(PlainComponents())
    first, second = await recognizer.recognize(RecognitionRequest(wav=wav), PlainComponents())
    assert first.warnings == ()
    assert "no speech was found" in second.warnings
