"""`transcribe`: the audio of a command in, its text out while somebody still speaks."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack

from wyoming.asr import Transcribe, Transcript, TranscriptChunk, TranscriptStart, TranscriptStop

from conch.client import OptionValue
from conch.gateway.callers_live import charged_updates, live_session_of
from conch.gateway.doors import WYOMING_LISTEN
from conch.gateway.live_audio import Samples
from conch.gateway.models import options_of
from conch.gateway.state import Caller, Gateway, cancelled
from conch.gateway.wyoming.events import Events
from conch.wire.errors import OptionError
from conch.wire.languages import code_of
from conch.wire.limits import MAX_HOTWORD_TEXT
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment

ROUTE = WYOMING_LISTEN.address
_SEPARATORS = str.maketrans(",:\n", "   ")
"""What separates hotwords and their weights is no part of them."""


def options_asked(
    asked: Transcribe, aliases: Mapping[str, str], languages: Collection[str]
) -> dict[str, OptionValue]:
    """Return the options of a live stream that a `transcribe` asks for.

    Args:
        asked: What the client sent.
        aliases: Models with a name.
        languages: Those that clients are told of; a model with a name may have others.

    Raises:
        ApiError: there is no such model.
        OptionError: the language is none of the model's.
    """
    options = dict(options_of(asked.name or "", aliases))
    if asked.language:
        language = options["language"] = code_of(asked.language)
        if "model" not in options and language not in languages:
            takes = ", ".join(languages)
            raise OptionError(f"option 'language' takes {takes} here; sent: {asked.language!r:.40}")
    names = _hotwords(asked.transcript_names or ())
    # They go before terms.
    wanted = [*(f"{name}:12" for name in names), *_hotwords(asked.transcript_terms or ())]
    while len(",".join(wanted)) > MAX_HOTWORD_TEXT:
        wanted.pop()
    if wanted:
        options["names"] = ",".join(wanted)
    RecognitionOptions.parse(options, live=True)
    return options


def _hotwords(sent: Sequence[object]) -> list[str]:
    plain = (" ".join(str(item).translate(_SEPARATORS).split()) for item in sent)
    return [*filter(None, plain)]


class Hearing:
    """Hears one command; a task of its own sends its text."""

    def __init__(
        self,
        gateway: Gateway,
        caller: Caller,
        events: Events,
        options: Mapping[str, OptionValue],
        sample_rate: int,
        request_id: str,
    ) -> None:
        """Prepare to hear; `open` begins."""
        self._gateway, self._caller, self._events = gateway, caller, events
        self._options, self._sample_rate, self._request_id = options, sample_rate, request_id
        self._texts: list[str] = []
        self._num_sent = 0
        """Utterances whose text was sent."""
        self._language: str | None = None
        self._stack = AsyncExitStack()

    async def open(self) -> None:
        """Begin.

        Raises:
            ApiError: nothing is free.
            ServerError: no server is ready.
        """
        gateway = self._gateway
        async with AsyncExitStack() as stack:
            stack.enter_context(gateway.session_of(self._caller, ROUTE))
            client = await stack.enter_async_context(gateway.servers.reserved())
            self._live = live_session_of(
                gateway, client, self._options, self._sample_rate, self._request_id
            )
            await stack.enter_async_context(self._live)
            self._sending = asyncio.create_task(self._send_chunks())
            stack.push_async_callback(cancelled, self._sending)
            self._stack = stack.pop_all()

    async def close(self) -> None:
        """Leave the server; nothing more is sent."""
        await self._stack.aclose()

    def hear(self, samples: Samples) -> None:
        """Hear further samples.

        Raises:
            ConchError: too much audio waits, or the server has failed.
        """
        if self._sending.done():
            self._sending.result()
        self._live.feed(samples)

    async def finish(self) -> None:
        """Send the text of the whole command.

        Raises:
            ConchError: the server has failed.
        """
        self._live.close()
        await self._sending
        await self._events.send(Transcript(" ".join(self._texts), language=self._language))
        await self._events.send(TranscriptStop())

    async def _send_chunks(self) -> None:
        await self._events.send(TranscriptStart())
        final = dict[int, Segment]()
        async for update in charged_updates(self._live, self._gateway, self._caller, ROUTE):
            final |= {item.segment.index: item.segment for item in update.segments if item.is_final}
            # A second pass may end before that of the utterance before.
            while (segment := final.pop(self._num_sent, None)) is not None:
                self._num_sent += 1
                if segment.text:
                    await self._send(segment)

    async def _send(self, segment: Segment) -> None:
        text = segment.text
        await self._events.send(TranscriptChunk(f" {text}" if self._texts else text))
        self._texts.append(text)
        self._language = segment.language or self._language
