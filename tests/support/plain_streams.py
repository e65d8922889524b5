"""Streams of the orchestrator on plain components."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import fields, replace

import numpy as np
from plain_components import PlainComponents
from plain_recognizer import recognizer_on

from conch.recognition.config import RecognitionConfig
from conch.recognition.request import RecognitionRequest

STEP = 10_240
"""Samples of 640 ms."""
LIMITS = {item.name for item in fields(RecognitionConfig)}


def audio(text: str) -> np.ndarray:
    """Return a step for each letter: a digit is speech of that level, `.` is silence."""
    levels = [0.0 if item == "." else int(item) / 10 for item in text]
    return np.repeat(np.array(levels, np.float32), STEP)


class Client:
    """A client that sends chunks of one stream: with a clock, as they are spoken."""

    def __init__(self, recognizer, components, stream_id=1, clock=None, **parameters) -> None:
        self.recognizer, self.components, self.clock = recognizer, components, clock
        self.stream_id, self.parameters = stream_id, {"mode": "streaming", **parameters}
        self.is_new = True

    async def send(self, waveform: np.ndarray, *, ends=False, **changes):
        request = RecognitionRequest(
            wav=waveform[np.newaxis],
            parameters=self.parameters,
            stream_id=self.stream_id,
            starts=self.is_new,
            ends=ends,
        )
        self.is_new = False
        if self.clock:
            self.clock.now += len(waveform) / 16_000
        (transcript,) = await self.recognizer.recognize(
            replace(request, **changes), self.components
        )
        return transcript

    async def say(self, text: str, *, ends=True):
        """Send a step for each letter, END with the last one; return all answers."""
        answers = [await self.send(audio(item)) for item in text[:-1]]
        return [*answers, await self.send(audio(text[-1]), ends=ends)]


@asynccontextmanager
async def serving(components=None, **limits):
    """Yield a recogniser and its components; behind the block their streams have ended."""
    components = components or PlainComponents()
    recognizer = recognizer_on(components, **limits)
    async with asyncio.timeout(120):
        yield recognizer, components
    for _ in range(200):
        if not len(recognizer.open_streams) and not any(components.open.values()):
            break
        await asyncio.sleep(0.01)


@asynccontextmanager
async def streaming(components=None, *, clock=None, **settings):
    """Yield a client of one stream, with its options and limits, and the components behind it."""
    limits = {name: settings.pop(name) for name in LIMITS & {*settings}}
    if clock:
        limits["clock"] = clock
    async with serving(components, **limits) as (recognizer, components):
        yield Client(recognizer, components, clock=clock, **settings), components


def ended_once(components) -> bool:
    """Report whether every stream of every component has ended, none of them twice."""
    return not any(components.open.values()) and len(set(components.ended)) == len(components.ended)
