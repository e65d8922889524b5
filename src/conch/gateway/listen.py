"""`GET /v1/conch/listen`: live audio over a WebSocket, and the query that sets its session."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import aiohttp
from aiohttp import web

from conch.audio.limits import check_rate
from conch.gateway.doors import LISTEN
from conch.gateway.errors import invalid, one_of, wrong
from conch.gateway.held import charged_updates, live_session_of
from conch.gateway.listen_messages import FrameAnswers, ListenMessages
from conch.gateway.live_audio import ENCODINGS, RAW, LiveFrames, default_rate
from conch.gateway.live_session import LiveSession
from conch.gateway.models import options_of
from conch.gateway.servers import SessionClient
from conch.gateway.socket_session import (
    PROTOCOL,
    LiveSocket,
    PlainSession,
    command_in,
    error_for_client,
    hold,
)
from conch.gateway.state import GATEWAY
from conch.wire.errors import AudioError
from conch.wire.limits import clipped
from conch.wire.option_values import options_of_text
from conch.wire.options import RecognitionOptions, all_options

OWN = ("encoding", "sample_rate", "model", "include", "answers", "told_s")
"""Names in the query that are no options."""
MAX_SENT_BEFORE_S = 60.0
"""Most seconds at the beginning whose words an earlier session may have sent."""


@dataclass(frozen=True, slots=True)
class ListenQuery:
    """The session that a client asks for."""

    encoding: str
    sample_rate: int
    """Hz of the decoded samples."""
    options: RecognitionOptions
    has_stats: bool = False
    """Whether there are messages of the path."""
    answers_all: bool = False
    """Whether each frame gets one answer."""
    has_resume: bool = False
    """Whether messages say from where another session has to hear the audio."""
    sent_before_s: float = 0.0
    """Seconds at the beginning whose words an earlier session has sent."""


async def listen(request: web.Request) -> web.StreamResponse:
    # First, as a browser learns from a plain GET alone why its WebSocket was refused.
    query = query_of(list(request.query.items()), request.app[GATEWAY].model_aliases)
    socket = LiveSocket(request, LISTEN.max_message_bytes, PROTOCOL)
    return await hold(request, socket, lambda client: ListenSession(request, socket, client, query))


class ListenSession(PlainSession):
    """A session whose binary frames are live audio."""

    commands: ClassVar[Mapping[str, str]] = {
        name: name for name in ("close", "keepalive", "finalize")
    }
    """Commands by the type of a text frame."""

    def __init__(
        self, request: web.Request, socket: LiveSocket, client: SessionClient, query: ListenQuery
    ) -> None:
        super().__init__(request, socket, client)
        self._query = query
        options = query.options
        if query.answers_all:  # its answers are those of a stream without a gateway
            options = options.unless_sent(history_s=options.history_s)
        self._live: LiveSession = live_session_of(
            *(self._gateway, client, options, query.sample_rate, self._request_id),
            joins=not query.answers_all,
            sent_before_s=0.0 if query.answers_all else query.sent_before_s,
        )
        self._frames = LiveFrames(query.encoding, query.sample_rate)
        self._messages = self._make_messages()

    async def run(self) -> int:
        query = self._query
        await self._greet(encoding=query.encoding, sample_rate=query.sample_rate)
        async with self._frames, self._live:
            return await super().run()

    async def _take(self, frame: aiohttp.WSMessage) -> None:
        if frame.type == aiohttp.WSMsgType.BINARY:
            await self._hear(frame.data)
        else:
            await self._obey(frame.data)

    async def _hear(self, data: bytes, *, ends: bool = False) -> None:
        if self._is_closing:
            return
        try:
            async for samples in self._frames.decoded(data, ends=ends):
                await self._live.feed(samples)
        except AudioError as error:
            if self._query.encoding not in RAW:
                raise
            await self.fail(error_for_client(error))

    async def _obey(self, text: str) -> None:
        known = [*self.commands][: 2 if self._query.answers_all else 3]
        command = command_in(text)
        wanted = self.commands[command.type] if command and command.type in known else None
        if wanted is None:
            await self._refuse(text, known)
        elif wanted == "close":
            await self._hear(b"", ends=True)
            self._close()
        elif wanted == "finalize" and not self._is_closing:
            self._live.finalize()

    def _make_messages(self) -> Any:
        """Return what makes messages of the updates, as `ListenMessages` does."""
        return ListenMessages(has_stats=self._query.has_stats, has_resume=self._query.has_resume)

    async def _send_texts(self) -> None:
        query, messages = self._query, self._messages
        answers = FrameAnswers()
        updates = charged_updates(self._live, self._gateway, self._caller, self._route)
        async for update in updates:
            new = list(messages.after(update))
            if not query.answers_all:
                for message in new:
                    await self._send(message)
            elif (answer := answers.after(update)) is not None:
                text = f'{{"type":"transcript","transcript":{answer.to_json()}}}'
                await self._socket.send(text)
        self._last = messages.end()


def query_of(fields: Sequence[tuple[str, str]], aliases: Mapping[str, str]) -> ListenQuery:
    """Return the session of a query; raise an ApiError or OptionError for a wrong field."""
    values = values_of(fields, repeated=("include",))
    encoding = one_of("encoding", values.get("encoding") or "auto", ENCODINGS)
    answers = one_of("answers", values.get("answers") or "text", ("text", "all"))
    if answers == "all" and encoding not in RAW:
        names = ", ".join(RAW)
        message = f"answers=all answers each frame of raw samples: send encoding as {names}"
        raise invalid("encoding", f"{message}; sent: {encoding}")
    included = chain.from_iterable(
        value.split(",") for name, value in fields if name == "include" and value
    )
    parts = {one_of("include", item, ("stats", "resume")) for item in included}
    sent = {name: value for name, value in values.items() if name not in OWN}
    sample_rate = _rate(values.get("sample_rate"), encoding)
    chosen = {
        **options_of(values.get("model", ""), aliases),
        **options_of_text(sent, all_options(), others=OWN),
    }
    if "known_speakers" in chosen:
        chosen.setdefault("speakers", "auto")
    return ListenQuery(
        encoding,
        sample_rate,
        RecognitionOptions.parse(chosen, live=True),
        has_stats="stats" in parts,
        answers_all=answers == "all",
        has_resume="resume" in parts,
        sent_before_s=_sent_before_s(values.get("told_s") or "0"),
    )


def values_of(fields: Sequence[tuple[str, str]], repeated: Sequence[str] = ()) -> dict[str, str]:
    """Return the values of a query; raise an ApiError for a name that comes again."""
    values: dict[str, str] = {}
    for name, value in fields:
        if name in values and name not in repeated:
            both = f"{values[name]!r:.80} and {value!r:.80}"
            shown = clipped(name)
            raise invalid(shown, f"'{shown}' comes once; sent: {both}")
        values[name] = value
    return values


def _sent_before_s(text: str) -> float:
    try:
        seconds = float(text[:20])
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_SENT_BEFORE_S:
        raise wrong("told_s", f"0 to {MAX_SENT_BEFORE_S:g} seconds", text)
    return seconds


def _rate(text: str | None, encoding: str) -> int:
    if not text:
        return default_rate(encoding)
    try:
        check_rate(rate := int(text[:9]) if text.isdecimal() else 0, "sample_rate")
    except AudioError:
        raise wrong("sample_rate", "4000 to 192000 Hz", text) from None
    return rate
