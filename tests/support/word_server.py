"""A server of live streams whose audio is numbers: a word is a run of samples of one value.

It answers as a real one does: in steps, with firm words, utterances that end after a pause, and
second passes that come later. A word whose beginning it has not heard is misheard.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from conch.client.tensors import Request
from conch.wire.errors import SessionError
from conch.wire.result import (
    Hypothesis,
    OpenUtterance,
    RollingPasses,
    Segment,
    Stage,
    Transcript,
    Word,
    text_of_words,
)

RATE = 1000
STEP = 640
FIRM_AFTER = 600
"""Samples after a word's end until it is firm."""
PAUSE = 1000
PAD = 300

Samples = NDArray[np.int16]
Fault = Callable[[Request, int], Exception | None]


def spoken(lengths: Sequence[tuple[int, int]]) -> Samples:
    """Return the samples of words, each after a silence: pairs of both lengths."""
    pieces = []
    for number, (silence, length) in enumerate(lengths, 1):
        pieces += [np.zeros(silence, np.int16), np.full(length, number, np.int16)]
    return np.concatenate(pieces)


def words_in(samples: Samples, first: int = 0) -> list[Word]:
    """Return the words from a sample on; one that begins with sample 0 is misheard."""
    edges = np.flatnonzero(np.diff(samples[max(0, first - 1) :])) + max(0, first - 1) + 1
    bounds = [0, *edges.tolist(), len(samples)]
    found = []
    for start, end in pairwise(bounds):
        if end > start >= first and samples[start]:
            text = f"w{samples[start]}" if start else f"half{samples[start]}"
            found.append(Word(text, start / RATE, end / RATE, 0.9))
    return found


@dataclass
class _Stream:
    options: dict[str, object]
    samples: Samples = field(default_factory=lambda: np.zeros(0, np.int16))
    begins: int = 0
    """First sample of the open utterance."""
    heard: int = 0
    segments: list[Segment] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)


class WordServer:
    """Answers requests of live streams; `fails` says what goes wrong with each."""

    def __init__(self, fails: Fault = lambda request, number: None) -> None:
        self.streams: dict[str, _Stream] = {}
        self.requests: list[Request] = []
        self.abandoned: list[str] = []
        self.fails = fails
        """Called before a request is heard, with its number from 0; returns its error."""
        self.loses: Fault = lambda request, number: None
        """Called after a request was heard; returns the error in place of its answer."""

    def restart(self) -> None:
        self.streams.clear()

    @property
    def starts(self) -> list[Request]:
        """Return the requests that have begun a stream."""
        return [item for item in self.requests if item.position and item.position.starts]

    def infer(self, request: Request) -> Transcript:
        number = len(self.requests)
        self.requests.append(request)
        if error := self.fails(request, number):
            raise error
        answer = self._answer(request)
        if error := self.loses(request, number):
            raise error
        return answer

    def _answer(self, request: Request) -> Transcript:
        position = request.position
        assert position is not None
        if position.starts:
            self.streams[position.stream_id] = _Stream(dict(request.parameters))
        stream = self.streams.get(position.stream_id)
        if stream is None:
            raise SessionError("the session is expired or unknown; send START")
        if request.parameters.get("abandon"):
            self.abandoned.append(position.stream_id)
        chunk = request.inputs["PCM16"][0, : int(request.inputs["WAV_LENS"][0, 0])]
        stream.samples = np.concatenate([stream.samples, chunk])
        if position.ends:
            del self.streams[position.stream_id]
        return _recognized(stream, ends=position.ends)


def _recognized(stream: _Stream, *, ends: bool) -> Transcript:
    two_pass = stream.options.get("mode") != "streaming"
    shown: dict[int, Segment] = {}
    for index in stream.pending:  # its second pass has come
        item = stream.segments[index]
        best = Hypothesis(item.text.replace("w", "W"), 0, 0)
        shown[index] = stream.segments[index] = replace(item, nbest=(best,), passes=2)
    stream.pending = []
    until = len(stream.samples) if ends else len(stream.samples) // STEP * STEP
    while stream.heard < until:
        stream.heard = min(until, stream.heard + STEP)
        spoken = words_in(stream.samples, stream.begins)
        ended = [word for word in spoken if word.end * RATE <= stream.heard - PAUSE]
        later = [word for word in spoken if word.end * RATE > stream.heard - PAUSE]
        is_quiet = ended and not [word for word in later if word.start * RATE < stream.heard]
        if ends and stream.heard == until:
            ended, is_quiet = spoken, bool(spoken)
        if is_quiet:
            index = len(stream.segments)
            segment = Segment(
                start=max(stream.begins, ended[0].start * RATE - PAD) / RATE,
                end=min(stream.heard, ended[-1].end * RATE + PAD) / RATE,
                nbest=(Hypothesis(text_of_words(ended), 0, 0),),
                words=tuple(ended) if stream.options.get("word_timestamps") else (),
                index=index,
                endpoint="end" if ends and stream.heard == until else "silence",
            )
            stream.begins = stream.heard
            stream.segments.append(segment)
            shown[index] = segment
            if two_pass:
                stream.pending.append(index)
    if ends:
        for index in stream.pending:
            item = stream.segments[index]
            best = Hypothesis(item.text.replace("w", "W"), 0, 0)
            stream.segments[index] = replace(item, nbest=(best,), passes=2)
        stream.pending, shown = [], dict(enumerate(stream.segments))
    return _answer_of(stream, shown, two_pass=two_pass, ends=ends)


def _answer_of(
    stream: _Stream, shown: dict[int, Segment], *, two_pass: bool, ends: bool
) -> Transcript:
    utterance = None
    words = [
        word
        for word in words_in(stream.samples[: stream.heard], stream.begins)
        if word.end * RATE < stream.heard
    ]
    if words and not ends:
        firm = tuple(w for w in words if w.end * RATE <= stream.heard - FIRM_AFTER)
        utterance = OpenUtterance(
            max(stream.begins / RATE, words[0].start - 2 * STEP / RATE),
            firm,
            newest=tuple(words[len(firm) :]),
        )
    may_change = min(stream.pending, default=len(stream.segments))
    since = min([*shown, may_change])
    texts = [segment.text for segment in stream.segments[since:]]
    stable = [segment.text for segment in stream.segments[since:may_change]]
    if utterance is not None:
        texts.append(utterance.text)
        if not stream.pending:
            stable.append(text_of_words(utterance.firm))
    text = " ".join(filter(None, texts))
    return Transcript(
        (Hypothesis(text, 0, 0),),
        tuple(shown[index] for index in sorted(shown)),
        stream.heard / RATE,
        ("vad",),
        {"vad": Stage(1, 1.0)},
        ends,
        text if ends else " ".join(filter(None, stable)),
        utterance,
        RollingPasses(1280, made=1) if two_pass else None,
    )
