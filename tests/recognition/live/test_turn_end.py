"""Ends of turns by other signs than silence."""

import asyncio

import pytest
from plain_components import PlainComponents
from plain_streams import audio, ended_once, streaming

CHUNK = 1_600
"""Samples of 100 ms."""
STEP_S = 0.64


async def ends(text: str, components: PlainComponents, **options) -> list[tuple[float, float]]:
    """Return, of each utterance, its end and the audio after which it has ended, in seconds."""
    wave = audio(text)
    options = {"semantic_endpointing": True, "endpoint_silence_ms": 1900, **options}
    async with streaming(components, **options) as (client, components):
        found: dict[float, float] = {}
        for start in range(0, len(wave), CHUNK):
            for item in (await client.send(wave[start : start + CHUNK])).segments:
                found.setdefault(item.end, (start + CHUNK) / 16_000)
            for _ in range(20):  # the server is quicker than speech
                await asyncio.sleep(0)
        await client.send(wave[:0], ends=True)
    assert ended_once(components)
    return list(found.items())


@pytest.mark.parametrize("mode", ["two_pass", "streaming"])
async def test_an_utterance_ends_sooner_where_its_speaker_has_finished(mode):
    """And not in a pause within it."""
    components = PlainComponents()
    ((end, heard),) = await ends("3..9....", components, mode=mode)
    assert end > 4 * STEP_S
    # The step in which the model is asked, and the next chunk.
    assert heard == pytest.approx(5 * STEP_S + 0.1, abs=0.1)
    asked = components.waveforms("end_of_turn")
    assert [len(item) for item in asked] == [2 * 10_240, 5 * 10_240], "once in each pause"


@pytest.mark.parametrize("reason", ["he goes on", "no model", "an error"])
async def test_otherwise_silence_decides(reason):
    components = PlainComponents()
    if reason == "no model":
        components.missing.add("end_of_turn")
    if reason == "an error":
        components.failing = "end_of_turn"
    text = "3...." if reason == "he goes on" else "9...."
    ((_, heard),) = await ends(text, components, mode="two_pass")
    assert heard == pytest.approx(4 * STEP_S, abs=0.1)
    assert components.calls.count("end_of_turn") == (reason != "no model")


async def test_without_the_option_nothing_is_asked():
    components = PlainComponents()
    assert await ends("9....", components, mode="two_pass", semantic_endpointing=False)
    assert "end_of_turn" not in components.calls
