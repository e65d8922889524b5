"""What a stream tells of its turns, and when: sooner than its text."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from plain_components import PlainComponents
from plain_streams import ended_once, streaming

from conch.wire.result import TurnEvent

CHUNK = 1_600
"""Samples of 100 ms."""
FINISHED, GOES_ON = 0.9, 0.3
"""Levels of a last word after which the plain model takes a speaker to have finished, or not."""


def spoken(*parts: tuple[float, float]) -> np.ndarray:
    """Return audio of parts, each a level and seconds."""
    return np.concatenate([np.full(round(s * 16_000), level, np.float32) for level, s in parts])


async def events(
    wave: np.ndarray, components: PlainComponents | None = None, **options
) -> list[tuple[float, TurnEvent | str]]:
    """Return the events and ends of utterances, each with the audio after which it was told."""
    found: list[tuple[float, TurnEvent | str]] = []
    num_ended = 0
    options = {"mode": "two_pass", "turn_events": True, "eager_end_threshold": 0.95, **options}
    async with streaming(components, **options) as (client, components):
        for start in range(0, len(wave), CHUNK):
            answer = await client.send(wave[start : start + CHUNK])
            ended = [f"end {it.index}" for it in answer.segments if it.index >= num_ended]
            num_ended += len(ended)
            found += [((start + CHUNK) / 16_000, it) for it in (*answer.turn_events, *ended)]
            for _ in range(20):  # the server is quicker than speech
                await asyncio.sleep(0)
        await client.send(wave[:0], ends=True)
    assert ended_once(components)
    return found


def types_of(told: Sequence[tuple[float, TurnEvent | str]]) -> list[str]:
    return [item if isinstance(item, str) else item.type for _, item in told]


async def test_speech_is_told_within_a_step_of_the_server():
    """Of 640 ms: at the end of the chunk in which it begins."""
    told = await events(spoken((0, 0.7), (GOES_ON, 0.3), (0, 1.6)))
    (heard, began), *_ = told
    assert began == TurnEvent("speech_started", pytest.approx(0.7, abs=0.032), 0)
    assert heard == pytest.approx(0.8)


@pytest.mark.parametrize("mode", ["two_pass", "streaming"])
async def test_a_probable_end_is_taken_back_by_who_goes_on(mode):
    wave = spoken((FINISHED, 1.0), (0, 0.6), (FINISHED, 1.0), (0, 1.5))
    told = await events(wave, mode=mode, endpoint_silence_ms=1000)
    assert types_of(told) == ["speech_started", "eager_end", "resumed", "eager_end", "end 0"]
    _, (heard, first), (back, on), (_, last), (ended, _) = told
    assert first == TurnEvent("eager_end", 1.024, 0, 0.96)
    assert heard == pytest.approx(1.3), "in the chunk with 0.2 s of silence"
    assert on == TurnEvent("resumed", pytest.approx(1.6, abs=0.032), 0)
    assert back == pytest.approx(1.7)
    assert last.at == pytest.approx(2.6, abs=0.032)
    assert ended > 3.5, "silence alone ends it"


async def test_the_end_may_have_a_higher_threshold_than_the_eager_one():
    wave = spoken((FINISHED, 1.0), (0, 2.0))
    ends = {}
    # The end of a whole step, and the next chunk; otherwise silence.
    for threshold in (0.95, 1.0):
        told = await events(
            wave,
            semantic_endpointing=True,
            end_threshold=threshold,
            endpoint_silence_ms=1500,
        )
        assert types_of(told) == ["speech_started", "eager_end", "end 0"]
        ends[threshold] = told[-1][0]
    assert ends == {0.95: pytest.approx(1.4), 1.0: pytest.approx(2.6)}


async def test_a_pause_within_a_step_ends_nothing():
    wave = spoken((FINISHED, 0.7), (0, 0.4), (FINISHED, 0.5), (0, 2.0))
    told = await events(wave, semantic_endpointing=True, endpoint_silence_ms=1500)
    assert types_of(told) == ["speech_started", "eager_end", "resumed", "eager_end", "end 0"]


@pytest.mark.parametrize("reason", ["he goes on", "never", "no model", "an error"])
async def test_an_end_that_is_not_probable_is_not_told(reason):
    components = PlainComponents()
    if reason == "no model":
        components.missing.add("end_of_turn")
    if reason == "an error":
        components.failing = "end_of_turn"
    level = GOES_ON if reason == "he goes on" else FINISHED
    options = {"eager_end_threshold": 1.0} if reason == "never" else {}
    told = await events(spoken((level, 1.0), (0, 2.0)), components, **options)
    assert types_of(told) == ["speech_started", "end 0"]
    assert components.calls.count("end_of_turn") == (reason in ("he goes on", "an error"))


async def test_each_utterance_of_a_long_speech_begins():
    told = await events(spoken((GOES_ON, 7.0)), max_utterance_s=2.0)
    assert {"end 0", "end 1"} <= {*types_of(told)}
    begun = [item for _, item in told if isinstance(item, TurnEvent)]
    assert [(item.type, item.index) for item in begun] == [
        ("speech_started", index) for index in range(len(begun))
    ]
    assert len(begun) > 2


async def test_who_does_not_ask_is_told_nothing_and_no_frame_is_heard_twice():
    wave = spoken((0, 0.7), (FINISHED, 1.0), (0, 1.6))
    components = PlainComponents()
    assert types_of(await events(wave, components, turn_events=False)) == ["end 0"]
    plain = sum(map(len, components.waveforms("vad")))
    components = PlainComponents()
    await events(wave, components)
    assert sum(map(len, components.waveforms("vad"))) == plain


async def test_without_adaptive_the_events_depend_on_the_audio_alone():
    wave = spoken((0, 0.7), (FINISHED, 1.0), (0, 1.6))
    told = []
    for samples in (CHUNK, 7_000, len(wave)):
        async with streaming(
            mode="two_pass", turn_events=True, adaptive=False, semantic_endpointing=True
        ) as (client, _):
            chunks = [wave[at : at + samples] for at in range(0, len(wave), samples)]
            answers = [await client.send(chunk) for chunk in chunks]
        told.append([event for answer in answers for event in answer.turn_events])
    assert [event.type for event in told[0]] == ["speech_started", "eager_end"]
    assert told[0] == told[1] == told[2]


@pytest.mark.parametrize("vad", [True, False])
async def test_an_utterance_within_one_step_is_told_whole(vad):
    wave = spoken((0, 0.64), (FINISHED, 0.1), (0, 1.2))
    told = await events(wave, vad=vad, endpoint_silence_ms=500)
    assert types_of(told)[0] == "speech_started" and types_of(told)[-1] == "end 0"
