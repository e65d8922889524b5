"""`GET /v2/listen`: the turns of a conversation, as Deepgram's Flux tells them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from aiohttp import web

from conch.client import OptionValue
from conch.families.options import option
from conch.gateway.deepgram.listen import DeepgramListenSession, granted_options
from conch.gateway.deepgram.parameters import StreamParameters, read
from conch.gateway.deepgram.results import Message
from conch.gateway.deepgram.sockets import DeepgramSession
from conch.gateway.doors import DEEPGRAM_TURNS
from conch.gateway.errors import invalid
from conch.gateway.listen import ListenQuery
from conch.gateway.live_session import LiveUpdate
from conch.gateway.servers import SessionClient
from conch.gateway.socket_session import LiveSocket, PlainSession, hold
from conch.gateway.state import GATEWAY
from conch.session.resume_state import LOST
from conch.wire.joining import joined_text
from conch.wire.needs import components_of, missing
from conch.wire.result import OpenUtterance, Segment, TurnEvent, Word, text_of_words

_OF_ENDS = ("semantic_endpointing=true", "turn_events=true")
"""Why a request needs the models that find ends of turns."""
_MODEL_S = 0.1
"""A turn ended by the model if so much silence was still to come."""


@dataclass(frozen=True, kw_only=True)
class TurnParameters(StreamParameters):
    MODELS: ClassVar = re.compile("flux-.*")

    punctuate: bool = option(True, "punctuation and case")
    eot_threshold: float | None = option(
        None, "probability that ends a turn: end_threshold", low=0.5, high=0.9, otherwise="0.95"
    )
    eager_eot_threshold: float | None = option(
        None,
        "probability of EagerEndOfTurn: eager_end_threshold",
        low=0.3,
        high=0.9,
        otherwise="there is none",
    )
    eot_timeout_ms: int = option(
        1000, "silence that ends a turn: endpoint_silence_ms", low=500, high=10_000
    )

    @property
    def live_options(self) -> dict[str, OptionValue]:
        return {
            "turn_events": True,
            "semantic_endpointing": True,
            "eager_end_threshold": self.eager_eot_threshold or 1.0,
            "endpoint_silence_ms": self.eot_timeout_ms,
            **({"end_threshold": self.eot_threshold} if self.eot_threshold else {}),
        }


async def listen(request: web.Request) -> web.StreamResponse:
    asked = read(TurnParameters, [*request.query.items()])
    if (asked.eager_eot_threshold or 0) > (asked.eot_threshold or 1):
        message = f"eager_eot_threshold is at most eot_threshold, {asked.eot_threshold:g}"
        raise invalid("eager_eot_threshold", f"{message}; sent: {asked.eager_eot_threshold:g}")
    socket = DeepgramSession.socket(request, DEEPGRAM_TURNS)
    options = await granted_options(asked, request.app[GATEWAY])
    query = ListenQuery(asked.own_encoding, asked.own_rate, options)
    needs = components_of(options).items()
    of_ends = [model for model, reason in needs if reason in _OF_ENDS]
    ready = await request.app[GATEWAY].servers.ready_models(of_ends)
    lacking = [str(missing(model)) for model in of_ends if model not in ready]
    return await hold(
        request, socket, lambda client: _Session(request, socket, client, query, lacking)
    )


class _Numbered(PlainSession):
    """A session whose messages have numbers."""

    _num_sent = 0

    async def _send(self, message: Message) -> None:
        number, self._num_sent = self._num_sent, self._num_sent + 1
        await super()._send({**message, "sequence_id": number})


class _Session(DeepgramListenSession, _Numbered):
    commands: ClassVar[Mapping[str, str]] = {
        "CloseStream": "close",
        "KeepAlive": "keepalive",
        "ForceEndTurn": "finalize",
    }

    def __init__(
        self,
        request: web.Request,
        socket: LiveSocket,
        client: SessionClient,
        query: ListenQuery,
        lacking: Sequence[str],
    ) -> None:
        """`lacking` says which models that find the ends of turns are not there."""
        super().__init__(request, socket, client, query)
        self._lacking = lacking

    async def _greet(self, **fields: Any) -> None:
        await super()._greet(**fields)
        for problem in self._lacking:
            warning = {"request_id": self._request_id, "code": "NO_END_OF_TURN_MODEL"}
            description = f"silence alone ends turns here: {problem}"
            await self._send({"type": "Warning", **warning, "description": description})

    def _make_messages(self) -> Any:
        return TurnMessages(self._request_id, self._query.options.endpoint_silence_ms / 1000)

    def _told(self, message: Message) -> Message | None:
        if message["type"] != "ready":
            return message
        return {"type": "Connected", "request_id": self._request_id}


@dataclass(frozen=True, slots=True)
class _Said:
    """Words of an utterance, without those of an earlier turn."""

    text: str
    words: tuple[Word, ...]
    end: float

    @classmethod
    def of(cls, part: Segment | OpenUtterance, after_s: float) -> "_Said":
        words = tuple(word for word in part.words if word.start + word.end > 2 * after_s)
        is_whole = len(words) == len(part.words)
        end = words[-1].end if words else after_s
        return cls(part.text if is_whole else text_of_words(words), words, end)


class TurnMessages:
    """The messages of turns. A turn goes on where its length, or a lost server, ends a segment."""

    def __init__(self, request_id: str, pause_s: float) -> None:
        """A pause of `pause_s` ends a turn."""
        self._request_id, self._pause_s = request_id, pause_s
        self._index = 0
        self._start: float | None = None
        """Start of the open turn, in seconds; None between turns."""
        self._said: list[_Said] = []
        """Utterances of the open turn that have ended."""
        self._ended = -1
        """Index of the latest utterance that has ended."""
        self._told_s = 0.0
        """End of the last word of the turn before. Another server may hear its end again."""
        self._has_utterance = False
        """Whether an utterance of the open turn was seen."""
        self._shown, self._probability, self._audio_s = "", 0.0, 0.0

    def after(self, update: LiveUpdate) -> Iterator[Message]:
        self._audio_s, spoken = update.audio_s, self._said_in(update.utterance)
        ended = {item.segment.index: item.segment for item in update.segments}
        for news in update.news:
            if isinstance(news, TurnEvent):
                is_open = news.index == update.index
                yield from self._tell(
                    news, spoken if is_open else self._said_in(ended.get(news.index))
                )
            elif news.segment.index > self._ended:
                yield from self._end_utterance(news.segment)
        if update.utterance is not None and spoken is not None:
            self._has_utterance = True
            if spoken.words and spoken.text != self._shown:
                yield from self._begin(update.utterance.start)
                self._shown = spoken.text
                yield self._message("Update", spoken)
        elif self._start is not None:
            silence_s = self._audio_s - (self._said[-1].end if self._said else self._audio_s)
            # What the VAD took for speech has no words, and no segment.
            is_noise = self._has_utterance and not self._said
            if is_noise or silence_s >= self._pause_s or update.finalized:
                yield self._end("manual" if update.finalized else "timeout")

    def end(self) -> None:
        """Return no last message: the close frame is the end."""

    def _said_in(self, part: Segment | OpenUtterance | None) -> _Said | None:
        return _Said.of(part, self._told_s) if part else None

    def _tell(self, event: TurnEvent, spoken: _Said | None) -> Iterator[Message]:
        if event.type == "speech_started":
            yield from self._begin(event.at)
        elif event.type == "resumed":
            yield self._message("TurnResumed", spoken)
        else:
            self._probability = float(event.probability or 0)
            yield self._message("EagerEndOfTurn", spoken)

    def _begin(self, start: float) -> Iterator[Message]:
        if self._start is None:
            self._start, self._has_utterance = start, False
            yield self._message("StartOfTurn")

    def _end_utterance(self, segment: Segment) -> Iterator[Message]:
        self._ended, self._shown = segment.index, ""
        said = _Said.of(segment, self._told_s)
        if not said.words and self._start is None:
            return
        yield from self._begin(segment.start)
        self._said.append(said)
        if segment.endpoint in ("length", LOST):
            return
        is_early = self._audio_s - said.end < self._pause_s - _MODEL_S
        by_rule = "model" if is_early else "timeout"
        yield self._end(by_rule if segment.endpoint == "silence" else "manual")

    def _end(self, trigger: str) -> Message:
        message = {**self._message("EndOfTurn"), "trigger": trigger}
        self._told_s = max([self._told_s, *(said.end for said in self._said)])
        self._index, self._start, self._said = self._index + 1, None, []
        self._shown, self._probability = "", 0.0
        return message

    def _message(self, event: str, spoken: _Said | None = None) -> Message:
        parts = [*self._said, *([spoken] if spoken else [])]
        words = [word for part in parts for word in part.words]
        return {
            "type": "TurnInfo",
            "request_id": self._request_id,
            "event": event,
            "turn_index": self._index,
            "audio_window_start": self._start,
            "audio_window_end": self._audio_s,
            "transcript": joined_text(part.text for part in parts),
            "words": [
                {
                    "word": word.text,
                    "confidence": word.confidence,
                    "start": word.start,
                    "end": word.end,
                }
                for word in words
            ],
            "end_of_turn_confidence": self._probability,
        }
