"""A client whose live streams recognise numbers: every run of a sample value is its word.

Silence (zeros) of half a second ends an utterance. Of two passes, the second one comes with the
answer after that, and is in capitals: `one two` becomes `ONE TWO`. After 0.2 s of silence the
end is probable.
"""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.client.live import AsyncLiveStream, Infer
from conch.client.tensors import Request
from conch.gateway.servers import HEAL_S
from conch.wire.errors import ConchError, SessionError
from conch.wire.options import RecognitionOptions
from conch.wire.result import (
    Hypothesis,
    OpenUtterance,
    RollingPasses,
    Segment,
    Stage,
    Transcript,
    TurnEvent,
    Word,
)

RATE = 16_000
NAMES = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ENDING_S = 0.5
"""Silence that ends an utterance."""
EAGER_S, PROBABILITY = 0.2, 0.6
"""Silence after which its end has this probability."""


def spoken(number: int, seconds: float) -> NDArray[Any]:
    """Return so many seconds of a number, int16; 0 is silence."""
    return np.full(round(seconds * RATE), number, np.int16)


@dataclass
class Sent:
    """A chunk that a stream got."""

    stream: int
    at: float
    """Time of the event loop."""
    seconds: float
    ends: bool = False


@dataclass
class PlainLiveClient:
    """Stands for `SessionClient`: the streams of its server, and what they got."""

    latency_s: float = 0.0
    fail: Callable[[Sent], ConchError | None] = lambda sent: None
    """Returns an error to answer a chunk with; its stream is gone then."""
    resume_s: float = HEAL_S
    """Seconds for which a stream looks for a server."""
    sent: list[Sent] = field(default_factory=list)
    options: list[dict[str, Any]] = field(default_factory=list)
    """Options of each call of `live`, with its other arguments."""
    open: set[int] = field(default_factory=set)
    """Streams that the server keeps."""
    is_answering: asyncio.Event | None = None
    """If set, answers wait for it."""
    step_s: float = 0.0
    """What is left behind steps of this length waits for more audio, or for a chunk without any."""

    streams: "dict[str, PlainStream]" = field(default_factory=dict)
    """All streams, by their ids."""

    def live(self, *, options: RecognitionOptions, **settings: Any) -> AsyncLiveStream:
        self.options.append({**options.sent, **settings})
        return AsyncLiveStream(
            self.infer,
            model="speech",
            options=options,
            keep_segments=False,
            resume_s=self.resume_s,
            elsewhere=self._elsewhere,
            now=asyncio.get_running_loop().time,
            **settings,
        )

    async def _elsewhere(self) -> Infer:
        return self.infer

    async def infer(self, request: Request) -> Transcript:
        position = request.position
        assert position is not None
        if position.starts:
            number = len(self.streams)
            self.streams[position.stream_id] = PlainStream(self, number, request.parameters)
        if (stream := self.streams.get(position.stream_id)) is None:
            raise SessionError("the stream is gone")
        return await stream.answer(self.samples_of(request), ends=position.ends)

    def samples_of(self, request: Request) -> NDArray[Any]:
        length = int(request.inputs["WAV_LENS"][0, 0])
        name = "PCM16" if "PCM16" in request.inputs else "WAV"
        return request.inputs[name][0, :length]


class PlainStream:
    def __init__(self, client: PlainLiveClient, number: int, options: Mapping[str, Any]) -> None:
        self._client, self._number = client, number
        known = RecognitionOptions.__dataclass_fields__
        parsed = RecognitionOptions.parse(
            {name: value for name, value in options.items() if name in known}, live=True
        )
        self._has_second_pass = parsed.mode == "two_pass"
        self._events = PlainEvents(parsed.eager_end_threshold) if parsed.turn_events else None
        self._heard = self._rest = np.zeros(0, np.int16)
        self._told: dict[int, int] = {}
        """Passes of the segments that were told."""

    async def answer(self, chunk: NDArray[Any], *, ends: bool) -> Transcript:
        client = self._client
        now = asyncio.get_running_loop().time()
        sent = Sent(self._number, now, len(chunk) / RATE, ends)
        client.sent.append(sent)
        if len(self._heard) and self._number not in client.open:
            raise SessionError("the stream is gone")
        client.open.add(self._number)
        if client.is_answering is not None:
            await client.is_answering.wait()
        await asyncio.sleep(client.latency_s)
        if (error := client.fail(sent)) is not None:
            client.open.discard(self._number)
            raise error
        held = np.concatenate([self._rest, chunk.astype(np.int16)])
        left = round(len(held) % (client.step_s * RATE)) if client.step_s and len(chunk) else 0
        heard, self._rest = np.split(held, [len(held) - left])
        self._heard = np.concatenate([self._heard, heard])
        if ends:
            client.open.discard(self._number)
        return self._transcript(ends=ends)

    def _transcript(self, *, ends: bool) -> Transcript:
        utterances, open_words = _utterances(self._heard)
        num_silenced = len(utterances)
        all_utterances = [*utterances, *([open_words] if open_words else [])]
        if ends and open_words:
            utterances, open_words = [*utterances, open_words], []
        segments = []
        for index, words in enumerate(utterances):
            passes = self._passes(index, ends=ends)
            if ends or self._told.get(index) != passes:
                segments.append(_segment(index, words, passes, index < num_silenced))
            self._told[index] = passes
        rolling = RollingPasses(1280) if self._has_second_pass else None
        return Transcript(
            (Hypothesis("", 0.0, 0.0),),
            tuple(segments),
            round(len(self._heard) / RATE, 3),
            ("vad",),
            {"vad": Stage(1, 2.0), "total": Stage(1, 3.0)},
            is_final=ends,
            utterance=OpenUtterance(open_words[0].start, tuple(open_words)) if open_words else None,
            rolling=rolling,
            turn_events=self._events.after(all_utterances, len(self._heard))
            if self._events
            else (),
        )

    def _passes(self, index: int, *, ends: bool) -> int:
        return 2 if self._has_second_pass and (ends or index in self._told) else 1


class PlainEvents:
    def __init__(self, eager_end_threshold: float) -> None:
        self._is_eager = eager_end_threshold <= PROBABILITY
        self._begun = 0
        """Utterances whose beginning was told."""
        self._ended_at: float | None = None
        """Where the open utterance seemed to end; None if it did not."""

    def after(self, utterances: list[list[Word]], heard: int) -> tuple[TurnEvent, ...]:
        events: list[TurnEvent] = []
        for index in range(self._begun, len(utterances)):
            events.append(TurnEvent("speech_started", utterances[index][0].start, index))
            self._begun, self._ended_at = index + 1, None
        if utterances:
            last, index = utterances[-1][-1], len(utterances) - 1
            if self._ended_at is not None and last.end > self._ended_at:
                events.append(TurnEvent("resumed", last.start, index))
                self._ended_at = None
            pause_s = heard / RATE - last.end
            if self._is_eager and self._ended_at is None and EAGER_S <= pause_s < ENDING_S:
                events.append(TurnEvent("eager_end", last.end, index, PROBABILITY))
                self._ended_at = last.end
        return tuple(events)


def _utterances(heard: NDArray[Any]) -> tuple[list[list[Word]], list[Word]]:
    """Return the words of the utterances that silence has ended, and those after it."""
    done: list[list[Word]] = []
    words: list[Word] = []
    edges = [0, *(np.flatnonzero(np.diff(heard)) + 1), len(heard)]
    for start, end in itertools.pairwise(edges):
        if start == end:
            continue
        if heard[start]:
            words.append(Word(NAMES[heard[start]], start / RATE, end / RATE, 1.0))
        elif words and end - start >= ENDING_S * RATE:
            done.append(words)
            words = []
    return done, words


def _segment(index: int, words: list[Word], passes: int, is_silenced: bool) -> Segment:
    text = " ".join(word.text for word in words)
    text = text.upper() if passes == 2 else text
    return Segment(
        words[0].start,
        words[-1].end,
        (Hypothesis(text, 0.0, 0.0),),
        tuple(words),
        index=index,
        endpoint="silence" if is_silenced else "end",
        passes=passes,
    )
