"""What Conch has heard, as the results of Riva's protocol. Pure."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from conch.gateway.live_session import LiveUpdate
from conch.gateway.riva.protocol import Message, message_class
from conch.gateway.session_stream import LiveSegment
from conch.wire.joining import num_words, separator
from conch.wire.result import Hypothesis, Segment, Transcript, Word

_Response = message_class("nvidia.riva.asr.StreamingRecognizeResponse")
_Result = message_class("nvidia.riva.asr.SpeechRecognitionResult")

MOST_STABLE = 0.9
"""Stability of a text all of whose words stay while its utterance goes on."""
WHOLE = 1.0
"""Stability of the text of an utterance that has ended, before its second pass."""


class SpeakerTags:
    """Numbers for the names of speakers, from 1, in the order in which they first speak."""

    def __init__(self) -> None:
        self._tags: dict[str, int] = {}

    def of(self, name: Any) -> int:
        """Return the number of a name; 0 for none."""
        return self._tags.setdefault(name, len(self._tags) + 1) if name else 0


def results_of(transcript: Transcript, num_alternatives: int) -> Iterator[Message]:
    """Yield the result of a recording, or one for each of its channels; none without text.

    A client may join the texts of all results, or read the first alone.
    """
    tags = SpeakerTags()
    parts: list[tuple[int, Sequence[Hypothesis], Sequence[Segment]]]
    parts = [(1, transcript.nbest[:num_alternatives], transcript.segments)]
    if transcript.channels:
        segments = dict(transcript.by_channel())
        parts = [
            (item.number, [Hypothesis(item.text, item.score, item.score)], segments[item.number])
            for item in transcript.channels
            if item.number in segments
        ]
    for number, nbest, spoken in parts:
        if nbest[0].text:
            result = _Result(channel_tag=number, audio_processed=transcript.duration)
            _add_alternatives(result, nbest, spoken, tags)
            yield result


class LiveResults:
    """Makes the responses of a stream.

    Each has the utterances that have become final, in their order, then what may still change.
    """

    def __init__(self, num_alternatives: int, *, has_interim: bool) -> None:
        self._num_alternatives, self._has_interim = num_alternatives, has_interim
        self._tags = SpeakerTags()
        self._num_final = 0
        """Utterances before this index are final."""
        self._ended: dict[int, LiveSegment] = {}
        """Utterances that wait for their second pass, or for one before them."""
        self._shown: tuple[str, float] = ("", 0.0)

    def after(self, update: LiveUpdate) -> Message | None:
        """Return the response to an update; None if nothing has changed."""
        response = _Response()
        for item in update.segments:
            if item.segment.index >= self._num_final:
                self._ended[item.segment.index] = item
        while self._ended and self._ended[first := min(self._ended)].is_final:
            segment = self._ended.pop(first).segment
            self._num_final = first + 1
            self._shown = ("", 0.0)
            if segment.text:
                result = response.results.add(is_final=True)
                nbest = segment.nbest[: self._num_alternatives]
                _add_alternatives(result, nbest, (segment,), self._tags)
        if self._has_interim and (shown := self._open(update)) not in (("", 0.0), self._shown):
            self._shown = shown
            text, stability = shown
            result = response.results.add(stability=stability)
            result.alternatives.add(transcript=text)
        for result in response.results:
            result.channel_tag, result.audio_processed = 1, update.audio_s
        return response if response.results else None

    def _open(self, update: LiveUpdate) -> tuple[str, float]:
        """Return the text that is not final yet, and how stable it is."""
        utterance = update.utterance
        ended = "".join(
            _spaced(item.segment.text)
            for _, item in sorted(self._ended.items())
            if item.segment.text
        )
        if utterance is None or not utterance.words:
            return ended, WHOLE if ended else 0.0
        firm = len(utterance.firm) / len(utterance.words)
        return ended + utterance.text, round(MOST_STABLE * firm, 2)


def _add_alternatives(
    result: Message,
    nbest: Sequence[Hypothesis],
    segments: Sequence[Segment],
    tags: SpeakerTags,
) -> None:
    """Add hypotheses to a result, the best one with words and languages."""
    for hypothesis in nbest:
        result.alternatives.add(
            transcript=_spaced(hypothesis.text), confidence=_confidence(hypothesis)
        )
    best = result.alternatives[0]
    best.language_code.extend(dict.fromkeys(item.language for item in segments if item.language))
    for segment in segments:
        for word in segment.words:
            best.words.append(_word(word, segment, tags))


_Word = message_class("nvidia.riva.asr.WordInfo")


def _word(word: Word, segment: Segment, tags: SpeakerTags) -> Message:
    return _Word(
        start_time=round(1000 * word.start),
        end_time=round(1000 * word.end),
        word=word.text,
        confidence=word.confidence if word.confidence > 0 else 0.0,  # not NaN either
        speaker_tag=tags.of(word.speaker or segment.speaker),
        language_code=segment.language,
    )


def _spaced(text: str) -> str:
    """Return a text with the space that follows it: clients join results without one."""
    return text + separator(text, text)


def _confidence(hypothesis: Hypothesis) -> float:
    """Return the mean probability of a word; 0 if it is not known, as Riva says it."""
    found = math.exp(min(0.0, hypothesis.am_score / max(1, num_words(hypothesis.text))))
    return found if math.isfinite(found) else 0.0
