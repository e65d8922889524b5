"""Join several streams to one transcript, because a lost server loses the state of its streams.

The answers so far are kept: utterances that have ended, and the firm words of the others. Audio is
sent again from shortly before the last firm word. The new stream hears some firm words twice,
because the first word after a cut is often misheard; `OverlapRemoval` leaves them out.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from conch.session.answers import (
    SummedCalls,
    added_passes,
    has_last_text,
    labels_of,
    latest_segments,
    shifted,
    shifted_events,
    shifted_segment,
    shifted_utterance,
)
from conch.session.resume_state import LOST, OverlapRemoval, ResumePoint, ResumeState
from conch.session.turn_events import SessionTurns
from conch.wire.joining import joined_text
from conch.wire.nbest import joined
from conch.wire.options import RecognitionOptions
from conch.wire.parts import with_turns
from conch.wire.result import RollingPasses, Segment, Transcript, text_of_words
from conch.wire.turns import with_speakers_near

MAX_KEPT_S = 180.0
"""Most seconds of audio to keep. The longest open utterance and four that await their second pass
have 140 s."""


class KeptAudio:
    """The samples of a session from the current cut on; samples count from the session's start."""

    def __init__(self, sample_rate: int, start: int = 0) -> None:
        self._most = round(MAX_KEPT_S * sample_rate)
        self._chunks: deque[NDArray[Any]] = deque()
        self.start = self.end = start
        """First sample that is kept, and the first one after all that is kept."""

    def add(self, samples: NDArray[Any]) -> None:
        """Keep a copy of a chunk of samples [N]."""
        if len(samples):  # a stream that pauses sends an empty one every half second
            self._chunks.append(samples.copy())
            self.end += len(samples)

    def take_back(self, sample: int) -> None:
        """Remove the last chunk, which began with `sample`; nothing if it was empty."""
        if self.end > sample:
            self._chunks.pop()
            self.end = sample

    def drop_before(self, sample: int) -> None:
        """Drop the chunks before a sample, and the oldest ones beyond MAX_KEPT_S."""
        while self._chunks:
            behind = self.start + len(self._chunks[0])
            if behind > sample and self.end - self.start <= self._most:
                break
            self._chunks.popleft()
            self.start = behind

    def between(self, start: int, end: int) -> list[NDArray[Any]]:
        """Return the samples from `start` up to `end`, where a chunk ends, in their chunks."""
        pieces = []
        at = self.start
        for chunk in self._chunks:
            if at < end and at + len(chunk) > start:
                pieces.append(chunk[max(0, start - at) :])
            at += len(chunk)
        return pieces


class JoinedStreams:
    """One transcript of all streams of a session: times, indices and firm text continue.

    Args:
        sent_before_s: Seconds at the beginning whose words were sent before.
        keeps_segments: Whether the last answer has the utterances of all answers.
    """

    def __init__(
        self, sample_rate: int, sent_before_s: float = 0.0, *, keeps_segments: bool = False
    ) -> None:
        self._rate = sample_rate
        self._all: dict[int, Segment] | None = {} if keeps_segments else None
        self._options = RecognitionOptions()
        self.start = 0
        """First sample of the current stream, on the clock of the session."""
        self.kept = KeptAudio(sample_rate)
        self._stream, self._has_answered = 1, False
        """Number of the current stream, and whether it has answered."""
        self._is_moved = sent_before_s > 0
        """Whether the current stream's answers differ from those of the session."""
        self.state = ResumeState(ResumePoint(0.0, (), sent_before_s))
        self._stable = ""
        self._texts: dict[int, tuple[str, float]] = {}
        """Text and end of the utterances that an answer may have to repeat."""
        self._changed: dict[int, Segment] = {}
        self._news: dict[int, bool] = {}
        self.news: dict[int, bool] = {}
        """Whether each utterance that ended, or got its second pass, with the latest `answer` has
        its last text, by index."""
        self._turns = SessionTurns()
        self._calls = SummedCalls()
        self._rolling_before: RollingPasses | None = None
        self._rolling: RollingPasses | None = None
        self._latest: Transcript | None = None
        self.duration = 0.0
        """Seconds of audio recognised, or left out by `clear`."""

    @property
    def kept_from(self) -> int:
        """First sample that the next stream would need."""
        return max(self.start, int(self.state.cut(self._stable).at_s * self._rate))

    def take(self, answer: Transcript, *, ends: bool) -> None:
        """Add an answer of the current stream; `ends` if the caller ended it.

        A gateway that stops ends it early, in the middle of a word; then utterances that had not
        ended before are dropped.
        """
        self._has_answered, is_cut = True, answer.is_final and not ends
        if is_cut:
            whole = [item for item in answer.segments if item.endpoint != "end"]
            answer = replace(answer, segments=tuple(whole), utterance=None)
        answered_s = self.start / self._rate + answer.duration
        # The steps of a later stream are at other times.
        self.duration = max(self.duration, round(answered_s, 3))
        if self._is_moved:
            answer = self._moved(answer)
        ended = ((item, has_last_text(item, answer)) for item in answer.segments)
        self._news |= self.state.end(ended)
        self._turns.hear(answer.turn_events, self.state.next_index)
        if not is_cut:
            self.state.hear(answer.utterance, answered_s)
        self._keep(answer.segments)
        self._calls.add(answer)
        now = answer.rolling
        self._rolling = now and added_passes(self._rolling_before, now)
        self._latest = answer
        self._stable = self._stable_text(answer) if self._is_moved else answer.stable

    def _moved(self, answer: Transcript) -> Transcript:
        """Return an answer of the current stream on the clock of the session."""
        seconds, label = self.start / self._rate, self._label
        segments = (
            shifted_segment(item, seconds, self._first_index, label) for item in answer.segments
        )
        moved = replace(
            answer,
            segments=tuple(self._overlap.of_segment(item) for item in segments),
            duration=self.duration,
            relabelled=shifted(answer.relabelled, seconds, label),
            turn_events=shifted_events(answer.turn_events, seconds, self._first_index),
        )
        if (spoken := answer.utterance) is not None:
            spoken = self._overlap.of_utterance(shifted_utterance(spoken, seconds, label))
        turns = shifted(answer.turns, seconds, label)
        return with_turns(replace(moved, utterance=spoken), turns)

    def _keep(self, segments: Iterable[Segment]) -> None:
        for segment in segments:
            self._changed[segment.index] = segment
            self._texts[segment.index] = (segment.text, segment.end)

    def answer(self) -> Transcript:
        """Join the answers since the last call to one."""
        latest = self._latest
        assert latest is not None
        segments = latest_segments(self._changed.values())
        if self._all is not None:
            self._all |= self._changed
            if latest.is_final:
                segments = self._all_segments(latest)
        if self._is_moved or len(segments) > len(latest.segments):
            latest = self._joined(latest, segments)
        latest = replace(latest, turn_events=self._turns.take())
        self.news, self._news = self._news, {}
        self._changed, self._calls = {}, SummedCalls()
        # Drop the texts that the next answer need not repeat.
        history_s = self._options.history_s if self._options.repeat_text else -1
        oldest_s = self.state.audio_s - history_s if history_s else float("-inf")
        first = self.state.first_pending
        self._texts = {
            index: item
            for index, item in self._texts.items()
            if index >= first or (history_s >= 0 and item[1] >= oldest_s)
        }
        return latest

    def _all_segments(self, last: Transcript) -> tuple[Segment, ...]:
        """Return the segments of all answers: a server repeats only what it keeps of a stream."""
        kept = latest_segments((self._all or {}).values())
        # Of some that a lost server had nothing was firm: the next stream has heard them again.
        segments = [item for item in kept if item.text or item.endpoint != LOST]
        if last.relabelled:
            segments = [item for _, item in with_speakers_near(segments, last.turns)]
        return tuple(segments)

    def _joined(self, latest: Transcript, segments: Sequence[Segment]) -> Transcript:
        if latest.is_final:
            nbest = joined([item.nbest for item in segments], self._options.nbest)
            stable = nbest[0].text
        else:
            texts = [text for _, (text, _) in sorted(self._texts.items()) if text]
            if latest.utterance is not None:
                texts.append(latest.utterance.text)
            text = joined_text(texts)
            nbest, stable = (replace(latest.nbest[0], text=text),), self._stable
        return replace(
            latest,
            nbest=nbest,
            segments=tuple(segments),
            path=self._calls.path,
            stages=self._calls.stages,
            stable=stable,
            rolling=self._rolling,
        )

    def _stable_text(self, answer: Transcript) -> str:
        """Return the beginning of the text that no longer changes."""
        first = self.state.first_pending
        texts = [text for index, (text, _) in sorted(self._texts.items()) if index < first]
        if first < self.state.next_index:
            texts.append(self.state.firm_pending(answer.stable))
        elif answer.utterance is not None:
            texts.append(text_of_words(answer.utterance.firm))
        return joined_text(texts)

    def begin(self, options: RecognitionOptions) -> None:
        """Begin the first stream, or one behind others that have ended."""
        self._options, self.start = options, self.kept.end
        self.kept = KeptAudio(self._rate, self.start)
        self._is_moved |= self.start > 0 or self.state.next_index > 0
        self.state.shows_open = options.partials
        self.state.begin(self.start / self._rate)
        self._begin(self.state.cut())

    def clear(self, end: int, index: int) -> None:
        """Have the next stream begin with a sample, and its first utterance with an index."""
        self.kept.end, self.state.next_index = end, index
        self._turns.clear(index)
        self.duration = max(self.duration, round(end / self._rate, 3))

    def settled(self) -> Transcript | None:
        """End the firm text where no stream follows, and return the answer; None before any."""
        if self._latest is None:
            return None
        self.resume()
        return replace(self.answer(), utterance=None)

    def resume(self) -> None:
        """Begin another stream, after the firm text; only audio that is kept is sent again."""
        self._turns.lose()
        cut = self.state.cut(self._stable)
        self.start = max(self.kept_from, self.kept.start)
        has_second_pass = self._latest is not None and self._latest.rolling is not None
        has_words = self._options.word_timestamps
        settled = self.state.settle(
            self._stable, has_second_pass=has_second_pass, has_words=has_words
        )
        self._news |= dict.fromkeys((item.index for item in settled), True)
        self._keep(settled)
        self._is_moved = True
        self._begin(cut)

    def _begin(self, cut: ResumePoint) -> None:
        self._stream += self._has_answered
        self._has_answered = False
        self._label = labels_of(self._stream, str(self._options.value("known_speakers")))
        self.hears_again = cut.until_s > cut.at_s
        """Whether the current stream repeats words that were sent before."""
        self._first_index = self.state.next_index
        self._rolling_before = self._rolling or self._rolling_before
        self._overlap = OverlapRemoval(
            cut, self._first_index, has_words=self._options.word_timestamps
        )
