"""Sixty-four live sessions at once, while a file of an hour runs."""

import asyncio
import io
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
import soundfile
from audio_files import audio_file
from gateways import Gateway
from recordings import Recording, wer
from sockets import listening_to

pytestmark = [pytest.mark.server, pytest.mark.nightly, pytest.mark.timeout(900)]

RATE = 16_000
SESSIONS = 64
CHUNK_S = 0.1


def an_hour_of(path: Path) -> bytes:
    samples, rate = soundfile.read(path, dtype="int16")
    return audio_file(np.resize(samples, 3600 * rate), rate, format="FLAC")


async def listened(url: str, samples: np.ndarray, delay_s: float) -> list[dict[str, Any]]:
    """Send samples as they would be spoken; return every message."""
    chunk = round(CHUNK_S * RATE)
    # Its own connection and pings, as a client of its own.
    async with listening_to(url, heartbeat=20) as socket:

        async def speak() -> None:
            loop = asyncio.get_running_loop()
            began = loop.time() + delay_s
            for index, at in enumerate(range(0, len(samples), chunk), 1):
                await asyncio.sleep(max(0.0, began + index * CHUNK_S - loop.time()))
                await socket.send(samples[at : at + chunk])
            await socket.say("close")

        speaking = asyncio.create_task(speak())
        result = await socket.rest()
        await speaking
    assert socket.code == 1000, result[-1]
    return result


async def test_many_sessions_beside_a_long_file(gateway: Gateway, talk: Recording) -> None:
    samples, _ = soundfile.read(talk.path, dtype="int16")
    form = aiohttp.FormData()
    form.add_field("file", io.BytesIO(an_hour_of(talk.path)), filename="hour.flac")
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(800)) as session:
        url = f"{gateway.openai_url}/audio/transcriptions"
        sending = asyncio.ensure_future(session.post(url, data=form))
        sessions = await asyncio.gather(
            *(listened(gateway.url, samples, 0.1 * number) for number in range(SESSIONS))
        )
        async with await sending as answer:
            assert answer.status == 200
            file = await answer.json()
    for messages in sessions:
        assert not [message for message in messages if message["type"] == "error"]
        assert messages[-1]["type"] == "end"
        assert wer(talk.text, messages[-1]["text"]) < 0.4
    repeats = 3600 * RATE / len(samples)
    spoken = len(talk.text.split()) * repeats
    assert len(file["text"].split()) == pytest.approx(spoken, rel=0.15)
