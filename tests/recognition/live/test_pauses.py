"""Audio that stops in the middle of a step: the turn ends by the rule, and later audio goes on."""

import asyncio

import numpy as np
import pytest
from plain_streams import STEP, Client, audio, ended_once, streaming

from conch.recognition.live.sending_speed import MAX_AHEAD_S, Arrivals

NOTHING = np.zeros(0, np.float32)
SECOND = 16_000


def speech(seconds: float, level: float = 0.1) -> np.ndarray:
    return np.full(round(seconds * SECOND), level, np.float32)


def silence(seconds: float) -> np.ndarray:
    return speech(seconds, 0.0)


async def asked(client: Client, num_segments: int = 1) -> list:
    """Send chunks without audio until segments have come; return them."""
    found: list = []
    while len(found) < num_segments:
        await asyncio.sleep(0.02)
        found += (await client.send(NOTHING)).segments
    return found


def test_a_stop_counts_from_when_the_audio_would_have_been_played():
    arrivals = Arrivals()
    for number in range(5):  # a source that sends chunks of 2 s
        arrivals.add(2.0, 2.0 * number)
    assert [arrivals.pause_ms(8.0 + later) for later in (0, 1.9, 2.9)] == [0, 0, 0]
    assert arrivals.pause_ms(11.5) == pytest.approx(1500)
    for number in range(10):  # after a pause, short ones, 1 s of them at once
        arrivals.add(0.1, 20 + number / 1000)
    assert arrivals.pause_ms(21.9) == 0
    assert arrivals.pause_ms(22.5) == pytest.approx(1500)
    arrivals.add(0.0, 22.5)  # an empty one changes nothing
    assert arrivals.pause_ms(22.5) == pytest.approx(1500)
    arrivals.add(60.0, 200.0)  # no live source sends as much
    assert arrivals.pause_ms(200 + MAX_AHEAD_S + 1) == pytest.approx(1000)


@pytest.mark.parametrize(
    ("mode", "vad", "seconds"),
    [("two_pass", True, 0.5), ("streaming", True, 1.0), ("streaming", False, 0.5)],
)
async def test_a_turn_ends_without_any_silence_sent(mode, vad, seconds):
    """Also a word that no complete step has; the times of later audio are those of all audio."""
    async with streaming(mode=mode, vad=vad, endpoint_silence_ms=500) as (client, components):
        await client.send(speech(seconds))
        first = await asked(client)
        calls, vad_calls = len(components.calls), components.calls.count("vad")
        again = [await client.send(NOTHING) for _ in range(3)]
        assert len(components.calls) - calls <= (mode == "two_pass") * 3, "the second pass alone"
        await client.send(silence(0.64))
        await client.send(speech(1.28, 0.2))
        last = await client.send(NOTHING, ends=True)
        inputs = zip(components.calls, components.inputs, strict=True)
        of_vad = [sent for model, sent in inputs if model == "vad"][vad_calls:]
        assert ["state" in sent for sent in of_vad] == ([False] + [True] * 3 if vad else [])
    assert [segment.endpoint for segment in first] == ["silence"]
    assert first[0].index == 0 and first[0].text
    assert 0 <= first[0].start < 0.1 and seconds - 0.1 < first[0].end <= seconds
    assert all(answer.utterance is None for answer in again)
    assert seconds - 0.04 < again[-1].duration <= seconds
    assert last.duration == pytest.approx(seconds + 0.64 + 1.28, abs=0.002)
    assert [segment.index for segment in last.segments] == [0, 1]
    (second,) = last.segments[1:]
    assert "0.20" in second.text and "0.10" not in second.text
    assert seconds - 0.04 < second.start <= seconds + 0.64 and second.end == last.duration
    assert ended_once(components)


async def test_silence_that_was_sent_ends_a_turn_at_once():
    async with streaming(endpoint_silence_ms=500) as (client, components):
        await client.send(np.concatenate([speech(0.7), silence(0.55)]))
        found = await client.send(NOTHING)
    assert [(item.text, item.endpoint) for item in found.segments] == [("0.10 0.10", "silence")]
    assert found.duration == 1.248
    assert ended_once(components)


async def test_a_short_gap_cuts_nothing():
    """The answer is that of the audio without a gap."""
    wave = audio("12.3")[: 3 * STEP + 5_000]

    async def with_gaps(gaps: bool):
        async with streaming(word_timestamps=True) as (client, _):
            for start in range(0, len(wave), 3_000):
                await client.send(wave[start : start + 3_000])
                for _ in range(2 * gaps):
                    answer = await client.send(NOTHING)
                    assert not answer.segments
            return await client.send(NOTHING, ends=True)

    assert (await with_gaps(True)).segments == (await with_gaps(False)).segments


async def test_silence_alone_begins_nothing():
    async with streaming(endpoint_silence_ms=200) as (client, components):
        answer = await client.send(silence(0.9))
        while answer.duration < 0.89:
            await asyncio.sleep(0.02)
            answer = await client.send(NOTHING)
            assert answer.segments == () and answer.utterance is None
    assert set(components.calls) == {"vad"}


async def test_without_endpointing_a_pause_ends_nothing():
    async with streaming(endpointing=False) as (client, components):
        await client.send(np.concatenate([speech(0.7), silence(0.5)]))
        calls = len(components.calls)
        for _ in range(3):
            assert not (await client.send(NOTHING)).segments
        assert len(components.calls) == calls
