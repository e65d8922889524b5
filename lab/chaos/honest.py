"""Honest requests: their texts before the campaign, and whether they still come word for word."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import numpy as np

from conch.client import AsyncClient
from conch.gateway.doors import LISTEN as LISTEN_DOOR
from conch.gateway.doors import TRANSCRIPTIONS, Door
from conch.wire.errors import ConchError, DeadlineError, OverloadedError
from lab.chaos.doors.target import PATIENCE_S, Addresses, Target
from lab.chaos.speech import RATE, speech, wav_file
from lab.chaos.visits.behaviours import visited
from lab.chaos.visits.sent import Sent, live

PAUSE_S = 0.4
"""Seconds between two honest requests next to hostile ones."""
CHUNK = RATE // 2
RECORDING, BY_GRPC, BY_GATEWAY = "recording", "recording, gRPC", "file, gateway"
LIVE, LISTEN, SEGMENTS = "live", "listen", "segments"
CTC, GRAPH, NEURAL, NGRAM = "ctc", "wfst", "neural rescorer", "n-gram rescorer"
REQUESTS = (RECORDING, BY_GRPC, BY_GATEWAY, LIVE, LISTEN)
"""The requests next to hostile ones."""
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    CTC: {"decoder": "ctc"},
    GRAPH: {"decoder": "wfst"},
    # Without the margin a text that nothing can beat is not scored at all.
    NEURAL: {"rescore": True, "rescorer": "neural", "rescore_margin": 1000.0},
    NGRAM: {"rescore": True, "rescorer": "ngram", "rescore_margin": 1000.0},
}
ALL_REQUESTS = (*REQUESTS, *OPTIONS, SEGMENTS)
REQUEST_OF_MODEL: Mapping[str, str] = {
    "vad": RECORDING,
    "attention_encoder": RECORDING,
    "attention_decoder": RECORDING,
    "ctc_encoder": CTC,
    "ctc_decoder": CTC,
    "ctc_streaming_encoder": LIVE,
    "ctc_streaming_decoder": LIVE,
    "neural_rescorer": NEURAL,
    "rescorer": NGRAM,
    "speech": RECORDING,
    "speech_stream": SEGMENTS,
}
"""An honest request that needs the model."""


@dataclass(frozen=True, slots=True)
class Reply:
    request: str
    sent_at: float
    """Time of `time.monotonic`."""
    took_s: float
    outcome: str
    """`right`, `busy`, or what was wrong."""

    @property
    def answered_at(self) -> float:
        return self.sent_at + self.took_s


@dataclass(slots=True)
class Replies:
    items: list[Reply] = field(default_factory=list)

    @property
    def right(self) -> int:
        return sum(item.outcome == "right" for item in self.items)

    @property
    def busy(self) -> int:
        return sum(item.outcome == "busy" for item in self.items)

    @property
    def wrong(self) -> list[Reply]:
        return [item for item in self.items if item.outcome not in ("right", "busy")]

    @property
    def median_s(self) -> float | None:
        times = sorted(item.took_s for item in self.items if item.outcome == "right")
        return times[len(times) // 2] if times else None


class Honest:
    """Clients of a server, and the texts that it gave before the campaign."""

    def __init__(self, addresses: Addresses, texts: Mapping[str, str] | None = None) -> None:
        self._addresses = addresses
        self.texts = dict(texts or {})
        self._clients = AsyncExitStack()

    async def __aenter__(self) -> "Honest":
        enter = self._clients.enter_async_context
        self._http = await enter(AsyncClient(f"http://{self._addresses.http}"))
        self._grpc = await enter(AsyncClient(f"grpc://{self._addresses.grpc}"))
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._clients.aclose()

    async def learn(self, requests: tuple[str, ...]) -> None:
        """Send each request whose text is not known yet."""
        for request in requests:
            if request not in self.texts:
                self.texts[request] = await self._text(request, PATIENCE_S)

    async def ask(self, request: str, *, patience_s: float = PATIENCE_S) -> Reply:
        """Send a request and compare its text with that before the campaign."""
        sent_at = time.monotonic()
        try:
            async with asyncio.timeout(patience_s):
                text = await self._text(request, patience_s)
            outcome = "right" if text == self.texts[request] else f"another text: {text!r}"
        except (OverloadedError, DeadlineError):
            outcome = "busy"
        except TimeoutError:
            outcome = f"no answer within {patience_s:g} s"
        except (ConchError, OSError) as error:
            outcome = f"{type(error).__name__}: {error}"
        return Reply(request, sent_at, time.monotonic() - sent_at, outcome)

    @asynccontextmanager
    async def alongside(
        self, requests: tuple[str, ...] = REQUESTS, *, pause_s: float = PAUSE_S
    ) -> AsyncIterator[Replies]:
        """Send one after the other inside a block, each once at least."""
        replies, is_over = Replies(), asyncio.Event()

        async def ask_on() -> None:
            for number, request in enumerate(cycle(requests)):
                if is_over.is_set() and number >= len(requests):
                    return
                replies.items.append(await self.ask(request))
                with suppress(TimeoutError):
                    await asyncio.wait_for(is_over.wait(), pause_s)

        asking = asyncio.create_task(ask_on())
        try:
            yield replies
        finally:
            is_over.set()
            await asking

    def _text(self, request: str, patience_s: float) -> Awaitable[str]:
        special: Mapping[str, Callable[[], Awaitable[str]]] = {
            BY_GATEWAY: self._file,
            LIVE: self._live,
            LISTEN: self._listen,
            SEGMENTS: self._segments,
        }
        return special[request]() if request in special else self._recording(request, patience_s)

    async def _recording(self, request: str, patience_s: float) -> str:
        client = self._http if request == RECORDING else self._grpc
        options = OPTIONS.get(request, {})
        return (await client.transcribe(speech(), timeout_s=patience_s, **options)).text

    async def _segments(self) -> str:
        async with aclosing(self._grpc.stream(speech(), timeout_s=PATIENCE_S)) as segments:
            return " ".join([item.text async for item in segments if item.text])

    async def _live(self) -> str:
        # Its text depends on the audio alone: in two_pass a busy server leaves passes out.
        async with self._grpc.live(mode="streaming", timeout_s=PATIENCE_S, resume_s=0) as stream:
            for start in range(0, len(speech()), CHUNK):
                await stream.send(speech()[start : start + CHUNK])
            return (await stream.finish()).text

    async def _file(self) -> str:
        return await self._visit(TRANSCRIPTIONS, Sent((wav_file(),)))

    async def _listen(self) -> str:
        return await self._visit(LISTEN_DOOR, Sent(live(speech()), {"mode": "streaming"}))

    async def _visit(self, door: Door, sent: Sent) -> str:
        """Return the text that the gateway gives."""
        answer = await visited(self._addresses.gateway.partition("//")[2], door, sent)
        if answer.status in ("503", "504"):
            raise OverloadedError(str(answer))
        if answer.status not in ("200", "1000"):
            raise ConchError(str(answer))
        return answer.said


async def open_streams(target: Target) -> int:
    """Return how many live streams the entry points and the components know."""
    async with target.session.get(target.addresses.metrics) as response:
        lines = (await response.text()).splitlines()
    names = ("conch_open_streams{", "conch_component_streams{")
    return int(np.sum([float(line.rpartition(" ")[2]) for line in lines if line.startswith(names)]))
