"""The answers of a live stream: put together from its ended utterances and the open one."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from conch.bls.calls import Calls
from conch.component import SAMPLE_RATE
from conch.recognition.config import RecognitionConfig
from conch.recognition.hooks import StreamLabels, StreamTurns
from conch.recognition.languages import with_only_language
from conch.recognition.live.endpointing import SpeechExtent
from conch.recognition.live.rolling_passes import LivePasses
from conch.recognition.live.state import LiveUtterance
from conch.recognition.live.text import whole_words
from conch.wire.joining import joined_text
from conch.wire.nbest import joined
from conch.wire.options import RecognitionOptions
from conch.wire.parts import language_of, with_turns
from conch.wire.result import Hypothesis, OpenUtterance, Segment, Transcript, Turn, text_of_words
from conch.wire.turns import NEAR_S, with_speakers_near, words_with_speakers

NO_PAUSE_S = 0.2
"""Silence at the end of a pass that is no pause yet."""


@dataclass(frozen=True, slots=True)
class Present:
    num_samples: int
    utterance: LiveUtterance | None
    speech: SpeechExtent

    @property
    def seconds(self) -> float:
        return self.num_samples / SAMPLE_RATE


class LiveAnswers:
    """The ended utterances of one live stream, and the answer after each of its chunks."""

    def __init__(
        self,
        options: RecognitionOptions,
        config: RecognitionConfig,
        passes: LivePasses | None,
        labels: StreamLabels | None = None,
    ) -> None:
        self._options, self._config, self._passes = options, config, passes
        self._labels = labels
        self._turns: StreamTurns | None = None
        """Turns of the whole stream, once it has ended."""
        self._unsettled = 0
        """Index of the first utterance whose speakers may still change."""
        self._history = History(options.history_s)
        """Utterances that have ended, with the text of their latest pass."""
        self._answered = 0
        """Index of the first utterance that no answer has had."""
        self._firm: dict[int, str] = {}
        """Firm text of each utterance that awaits its second pass, by index."""
        self.latest_text = ""
        """Text of the last utterance, before the text steps."""

    @property
    def next_index(self) -> int:
        return self._history.end

    def add(self, segment: Segment, said: str, firm: str | None = None) -> None:
        """Add an utterance that has ended, whose index is `next_index`."""
        if firm is not None:
            self._firm[segment.index] = firm
        self._history.append(segment)
        self.latest_text = said

    def relabel(self, turns: StreamTurns) -> None:
        """Set the speakers of the stream, which has ended."""
        self._turns = turns
        self._unsettled = self._history.first

    def after_chunk(
        self, present: Present, calls: Calls, *, ends: bool, repeats_text: bool
    ) -> Transcript:
        """Return the answer to a chunk: the news since the last answer, or the final one.

        With `repeats_text`, it repeats `history_s` seconds of text.
        """
        first = self._history.first if ends else self._answered
        changed = {*range(first, self._history.end), *self._take_second_passes()}
        may_change = self._history.end if (at := self._pending) is None else at
        if self._labels:
            changed |= self._label(self._labels, may_change)
        recent = min(self._history.recent(present.seconds), may_change)
        if self._labels:
            recent = min(recent, self._unsettled)
        if ends:
            since = self._history.first
        elif repeats_text:
            since = recent
        else:
            since = min(changed | {may_change})
        transcript = self._transcript(present, sorted(changed), since, calls, ends=ends)
        self._history.forget_before(recent)
        self._answered = self._history.end
        return transcript

    def _label(self, labels: StreamLabels, may_change: int) -> set[int]:
        """Label the utterances that are not settled; return the indices of those that change."""
        changed = set()
        segments = [*self._history.since(self._unsettled)]
        turns = labels.turns(segments[0].start - NEAR_S) if segments else ()
        for segment, labelled in with_speakers_near(segments, turns):
            if labelled != segment:
                self._history.replace(labelled)
                changed.add(segment.index)
            is_settled = segment.end <= labels.settled_s and segment.index < may_change
            if is_settled and segment.index == self._unsettled:
                self._unsettled += 1
        return changed

    @property
    def _pending(self) -> int | None:
        """Index of the first utterance whose text may still change, or None."""
        return self._passes.second.first if self._passes else None

    def _take_second_passes(self) -> Sequence[int]:
        """Replace the utterances whose second pass is done, and return their indices."""
        done = self._passes.second.take_done() if self._passes else ()
        for segment in done:
            self._history.replace(with_only_language(segment, self._options, self._config))
            self._firm.pop(segment.index, None)
        return [segment.index for segment in done]

    def _transcript(
        self, present: Present, changed: Sequence[int], since: int, calls: Calls, *, ends: bool
    ) -> Transcript:
        """Return an answer with the segments `changed`; its text begins with utterance `since`."""
        segments = self._history.since(since)
        texts = [segment.text for segment in segments]
        pending = self._pending
        if pending is None:
            stable = list(texts)
        else:
            stable = texts[: pending - since]
            stable.append(self._firm.get(pending, ""))
        utterance = self._open_utterance(present) if self._options.partials else None
        if utterance and self._labels:
            turns = self._labels.turns(utterance.start - NEAR_S)
            utterance = _labelled(utterance, turns) if turns else utterance
        if utterance:
            texts.append(utterance.text)
            if pending is None:
                stable.append(text_of_words(utterance.firm))
        if ends:
            nbest = joined([segment.nbest for segment in segments], self._options.nbest)
        else:
            open_score = present.utterance.score if present.utterance else 0.0
            score = sum((segment.nbest[0].score for segment in segments), open_score)
            nbest = (Hypothesis(joined_text(texts), score, am_score=score),)
        language, probability, translated_from = language_of(segments)
        first = min(changed, default=self._history.end)
        newest = self._history.since(first)
        transcript = Transcript(
            nbest=nbest,
            segments=tuple(newest[index - first] for index in changed),
            duration=round(present.seconds, 3),
            path=calls.path,
            stages=calls.stages,
            is_final=ends,
            stable=joined_text(stable),
            utterance=utterance,
            rolling=self._passes.report if self._passes else None,
            language=language,
            language_probability=probability,
            translated_from=translated_from,
        )
        if self._turns:
            return replace(
                with_turns(transcript, self._turns.turns),
                relabelled=tuple(self._turns.relabelled),
            )
        return with_turns(transcript, self._labels.take_turns()) if self._labels else transcript

    def _open_utterance(self, present: Present) -> OpenUtterance | None:
        utterance = present.utterance
        if utterance is None:
            return None
        start = round(utterance.start / SAMPLE_RATE, 3)
        if self._passes:
            text = self._passes.text
            in_speech = present.speech.after_last / SAMPLE_RATE > text.pass_end_s - NO_PAUSE_S
            tentative, newest = text.shown(utterance.words, present.seconds, in_speech=in_speech)
            return OpenUtterance(start, text.firm, tentative, newest, round(text.pass_end_s, 3))
        stable = utterance.stable
        unstable = whole_words(utterance.words[len(stable) :], present.seconds)
        return OpenUtterance(start, stable, (), tuple(unstable))


class History:
    """The latest ended utterances of a stream, numbered from its start.

    A stream of a day has 15,000 of them, 50 MB with the times of their words. Its client has them.
    """

    def __init__(self, seconds: float) -> None:
        """Keep utterances that ended at most these seconds before the audio does; 0 keeps all."""
        self._seconds = seconds
        self._segments: list[Segment] = []
        self.first = 0
        """Index of the first utterance that is kept."""

    @property
    def end(self) -> int:
        return self.first + len(self._segments)

    def append(self, segment: Segment) -> None:
        """Add an utterance, whose index is `end`."""
        self._segments.append(segment)

    def replace(self, segment: Segment) -> None:
        """Replace an utterance that is kept by the one with the same index."""
        self._segments[segment.index - self.first] = segment

    def since(self, index: int) -> Sequence[Segment]:
        """Return the utterances from an index on that is not before `first`."""
        return self._segments[index - self.first :]

    def recent(self, now_s: float) -> int:
        """Return the index of the first utterance to keep when the audio has `now_s` seconds."""
        if not self._seconds:
            return self.first
        oldest = now_s - self._seconds
        return self.first + bisect_left(self._segments, oldest, key=lambda segment: segment.end)

    def forget_before(self, index: int) -> None:
        """Drop the utterances before an index, which is not before `first`."""
        del self._segments[: index - self.first]
        self.first = index


def _labelled(utterance: OpenUtterance, turns: Sequence[Turn]) -> OpenUtterance:
    firm, tentative, newest = (
        words_with_speakers(words, turns)
        for words in (utterance.firm, utterance.tentative, utterance.newest)
    )
    return replace(utterance, firm=firm, tentative=tentative, newest=newest)
