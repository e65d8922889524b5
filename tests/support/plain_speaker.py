"""A client that speaks without a server."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any

import numpy as np

from conch.client import Speech
from conch.client.speech import speech_requests, spoken_text
from conch.client.tensors import Request
from conch.wire.errors import ComponentError, TextError
from conch.wire.result import Stage
from conch.wire.synthesis import Spoken, SpokenSentence


class PlainSpeaker:
    """Speaks every letter of a part as a sample of a tenth of a second; capitals have no sound."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_go_on = asyncio.Event()
        self.waiting = 0
        self.waits_at = "…"
        """A part with this waits behind its first sample until it may go on."""

    def synthesize_stream(
        self, text: str | AsyncIterable[str], *, request_id: str, **options: Any
    ) -> AsyncGenerator[Speech, None]:
        request = speech_requests(None, "synthesis", request_id, options, default_timeout_s=9.0)
        return spoken_text(self._speak, request, text, options)

    async def _speak(self, request: Request) -> AsyncGenerator[Speech, None]:
        text = request.inputs["TEXT"].item().decode()
        self.asked.append(text.strip())
        if text.isupper():
            raise TextError("no word")
        if "bad" in text:
            raise ComponentError("the vocoder has failed")
        samples = np.full(len(text.strip()), 0.5, np.float32)
        seconds = len(samples) / 10
        sentence = SpokenSentence(text.strip(), "", 0.0, seconds)
        yield Speech(samples[:1], b"", Spoken(0.1, 10, "hibari", (sentence,)))
        if self.waits_at in text:
            self.waiting += 1
            await self.may_go_on.wait()
            self.waiting -= 1
        yield Speech(samples[1:], b"", Spoken(seconds, 10, "hibari"))
        stages = {"vocoder": Stage(1, 5.0), "total": Stage(1, 6.0)}
        yield Speech(samples[:0], b"", Spoken(seconds, 10, "hibari", (), ("vocoder",), stages))
