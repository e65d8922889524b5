"""The doors of a gateway to live text: each says what it has heard of audio."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator

import riva.client
from realtime_client import BUFFER, TEXT, connected
from sockets import listening_to
from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient

RATE = 16_000

Audio = AsyncIterator[bytes]
"""Samples of int16 at 16 kHz."""


async def of_listen(url: str, audio: Audio) -> str:
    async with listening_to(url, "encoding=pcm16") as socket:
        async for piece in audio:
            await socket.send(piece)
        await socket.say("close")
        messages = await socket.rest()
    assert messages[-1]["type"] == "end", messages[-1]
    return str(messages[-1]["text"])


async def of_realtime(url: str, audio: Audio) -> str:
    async with connected(url) as client:
        await client.update(format={"type": "audio/pcm", "rate": RATE}, turn_detection=None)
        async for piece in audio:
            await client.append(piece)
        await client.send(f"{BUFFER}.commit")
        async for frame in client.socket:
            event = json.loads(frame.data)
            assert event["type"] != "error", event
            if event["type"] == f"{TEXT}.completed":
                return str(event["transcript"])
    raise AssertionError("the connection ended")


async def of_wyoming(url: str, audio: Audio) -> str:
    host, _, port = url.removeprefix("tcp://").rpartition(":")
    async with AsyncTcpClient(host, int(port)) as client:
        await client.write_event(Transcribe().event())
        await client.write_event(AudioStart(RATE, 2, 1).event())
        async for piece in audio:
            await client.write_event(AudioChunk(RATE, 2, 1, piece).event())
        await client.write_event(AudioStop().event())
        while event := await client.read_event():
            assert event.type != "error", event
            if Transcript.is_type(event.type):
                return Transcript.from_event(event).text
    raise AssertionError("the connection ended")


async def of_riva(url: str, audio: Audio) -> str:
    loop = asyncio.get_running_loop()

    async def next_piece() -> bytes:
        # Not `anext` with a default: Python 3.11 crashes if it is cancelled.
        async for piece in audio:
            return piece
        return b""

    def chunks() -> Iterator[bytes]:
        while piece := asyncio.run_coroutine_threadsafe(next_piece(), loop).result():
            yield piece

    def text() -> str:
        auth = riva.client.Auth(uri=url.removeprefix("grpc://"))
        config = riva.client.StreamingRecognitionConfig(
            config=riva.client.RecognitionConfig(encoding=1, sample_rate_hertz=RATE)
        )
        service = riva.client.ASRService(auth)
        answers = service.streaming_response_generator(chunks(), config)
        results = itertools.chain.from_iterable(answer.results for answer in answers)
        found = "".join(item.alternatives[0].transcript for item in results)
        auth.channel.close()
        return found

    return await asyncio.to_thread(text)
