"""Texts as Deepgram's clients read them. Pure."""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import count
from typing import Any, TypeAlias
from unicodedata import category
from uuid import NAMESPACE_OID, uuid5

import conch
from conch.gateway.deepgram.parameters import FileParameters, LiveParameters, Parameters
from conch.gateway.live_session import LiveUpdate
from conch.wire.joining import joined_text
from conch.wire.result import Segment, Transcript, Word, text_of_words

Message: TypeAlias = Mapping[str, Any]

CHANNEL = [0, 1]
"""The first of one channel."""
_SIGNED = re.compile(r"-\d")


class Results:
    """Writes texts as one request asks for them."""

    def __init__(self, asked: Parameters, request_id: str) -> None:
        self._has_case = asked.writes_case
        self._speakers: defaultdict[Any, int] = defaultdict(count().__next__)
        """Numbers of speakers, in the order in which they first speak."""
        self._request_id, self._uuid = request_id, model_uuid(asked.model)
        self._model = {"name": asked.model, "version": conch.__version__, "arch": "conch"}

    def alternative(self, text: str, words: Sequence[Word]) -> dict[str, Any]:
        if not self._has_case:
            text = joined_text(map(_bare, [word.text for word in words] or text.split()))
        return {
            "transcript": text,
            "confidence": sum(word.confidence for word in words) / max(1, len(words)),
            "words": [
                {
                    "word": _bare(word.text),
                    "start": word.start,
                    "end": word.end,
                    "confidence": word.confidence,
                    **({"punctuated_word": word.text} if self._has_case else {}),
                    **self.speaker(word),
                }
                for word in words
            ],
        }

    def speaker(self, word: Word) -> dict[str, int]:
        """Return the field of who says a word; none if that is not known."""
        return {"speaker": self._speakers[word.speaker]} if word.speaker else {}

    def metadata(self, digest: str, duration: float, channels: int) -> dict[str, Any]:
        return {
            "transaction_key": "deprecated",
            "request_id": self._request_id,
            "sha256": digest,
            "created": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "duration": round(duration, 3),
            "channels": channels,
            "models": [self._uuid],
            "model_info": {self._uuid: self._model},
        }


def _bare(text: str) -> str:
    """Return a word without case and the punctuation around it; signs of numbers stay."""
    start, end = 0, len(text)
    while start < end and _is_punctuation(text[start]) and not _SIGNED.match(text, start):
        start += 1
    while start < end and _is_punctuation(text[end - 1]):
        end -= 1
    return text[start:end].lower() or text


def _is_punctuation(character: str) -> bool:
    return category(character)[0] == "P" and character not in "%#@&"


def model_uuid(model: str) -> str:
    return str(uuid5(NAMESPACE_OID, f"conch {model}"))


def file_answer(
    transcript: Transcript, asked: FileParameters, request_id: str, digest: str
) -> dict[str, Any]:
    results, segments = Results(asked, request_id), dict(transcript.by_channel())
    channels: list[dict[str, Any]] = []
    utterances: list[dict[str, Any]] = []
    for number in [channel.number for channel in transcript.channels] or [0]:
        own = segments.get(number, [])
        words = [word for segment in own for word in segment.words]
        best = results.alternative(joined_text(segment.text for segment in own), words)
        language = {"detected_language": transcript.language} if asked.detect_language else {}
        for said in _utterances(words, asked.utt_split):
            place = {"start": said[0].start, "end": said[-1].end, "channel": len(channels)}
            text = results.alternative(text_of_words(said), said)
            uuid = str(uuid5(NAMESPACE_OID, f"{request_id} {place}"))
            utterances.append({**place, **text, **results.speaker(said[0]), "id": uuid})
        channels.append({"alternatives": [best], **language})
    utterances.sort(key=lambda item: item["start"])
    more = {"utterances": utterances} if asked.utterances else {}
    return {
        "metadata": results.metadata(digest, transcript.duration, len(channels)),
        "results": {"channels": channels, **more},
    }


def _utterances(words: Sequence[Word], pause_s: float) -> Iterator[Sequence[Word]]:
    """Yield the words between two pauses, or of one speaker."""
    start = 0
    for at in range(1, len(words) + 1):
        before, after = words[at - 1], words[at] if at < len(words) else None
        is_pause = after is None or after.start - before.end >= pause_s
        if is_pause or (after is not None and after.speaker != before.speaker):
            yield words[start:at]
            start = at


class LiveResults(Results):
    """The messages after each update of live audio.

    An utterance is final after its second pass, and results that are final keep their order.
    """

    def __init__(self, asked: LiveParameters, pause_s: float, request_id: str, digest: Any) -> None:
        """Begin; a pause of `pause_s` ends utterances, `digest` is the hash of the audio so far."""
        super().__init__(asked, request_id)
        self._asked, self._pause_s, self._digest = asked, pause_s, digest
        self._ended: dict[int, Segment | None] = {}
        """Utterances that were not sent, by index; None before the second pass."""
        self._speaking: int | None = None
        """Index of the latest utterance whose begin was sent."""
        self._started: Message = {}
        """The message of that."""
        self._open: int | None = None
        """Index of the latest utterance that was open."""
        self._word_end = math.inf
        """End of the latest final word."""
        self._waits_for_pause = self._waits_for_end = False
        """Whether no result with `speech_final`, and no UtteranceEnd, came after that word."""
        self._shown, self._audio_s = "", 0.0

    def after(self, update: LiveUpdate) -> Iterator[Message]:
        self._audio_s = update.audio_s
        for event in update.transcript.turn_events:
            self._speaking, self._open = event.index, None
            self._started = {"type": "SpeechStarted", "channel": CHANNEL, "timestamp": event.at}
            yield self._started
        if update.utterance is not None:
            self._open = update.index
        elif self._speaking == self._open == update.index:
            # What the VAD took for speech has no words, and no segment: clients wait for its end.
            self._speaking = None
            yield self._final(self._silence("silence"))
        for item in update.segments:
            if not item.is_relabelled:
                self._ended[item.segment.index] = item.segment if item.is_final else None
        finals = []
        while self._ended and (segment := self._ended[first := min(self._ended)]) is not None:
            finals.append(segment)
            del self._ended[first]
        if update.finalized and not finals:
            finals.append(self._silence("finalize"))
        for segment in finals:
            if segment.words:
                yield from self._utterance_end(segment.words[0].start)
            final = self._final(segment, is_last=update.finalized and segment is finals[-1])
            yield final
            if final["speech_final"] and (self._speaking or 0) > segment.index:
                # For clients that text is what has ended: they wait for the next begin.
                yield self._started
        utterance, silence_s = update.utterance, self._audio_s - self._word_end
        if self._ended:
            return
        if utterance is not None and utterance.words:
            if self._asked.interim_results and utterance.text != self._shown:
                self._shown = utterance.text
                said = utterance.start, self._audio_s, utterance.text, utterance.words
                yield self._result(*said, is_final=False)
            return
        if self._waits_for_pause and silence_s >= self._pause_s:
            # Its length has cut the utterance, and nothing followed.
            yield self._final(self._silence("silence"))
        if self._speaking != update.index:
            yield from self._utterance_end(self._audio_s)

    def _utterance_end(self, until: float) -> Iterator[Message]:
        """Yield the end of an utterance if there was no word for long enough."""
        if self._waits_for_end and until - self._word_end >= self._asked.utterance_end_ms / 1000:
            self._waits_for_end = False
            yield {"type": "UtteranceEnd", "channel": CHANNEL, "last_word_end": self._word_end}

    def end(self) -> Message:
        return {"type": "Metadata", **self.metadata(self._digest.hexdigest(), self._audio_s, 1)}

    def _silence(self, endpoint: str) -> Segment:
        return Segment(self._audio_s, self._audio_s, (), endpoint=endpoint)

    def _final(self, segment: Segment, *, is_last: bool = False) -> Message:
        """Return the result of an utterance, `is_last` of those before a `Finalize`."""
        has_pauses = self._asked.endpointing != "false"
        is_end = segment.endpoint in ("finalize", "end", *(("silence",) if has_pauses else ()))
        self._shown, self._waits_for_pause = "", has_pauses and not is_end
        if segment.words:
            self._word_end = segment.words[-1].end
            self._waits_for_end = self._asked.utterance_end_ms > 0
        said = segment.start, segment.end, segment.text, segment.words
        return self._result(*said, is_final=True, speech_final=is_end, from_finalize=is_last)

    def _result(
        self, start: float, end: float, text: str, words: Sequence[Word], **flags: bool
    ) -> Message:
        return {
            "type": "Results",
            "channel_index": CHANNEL,
            "start": start,
            "duration": round(max(0.0, end - start), 3),
            "speech_final": False,
            "from_finalize": False,
            **flags,
            "channel": {"alternatives": [self.alternative(text, words)]},
            "metadata": {
                "request_id": self._request_id,
                "model_info": self._model,
                "model_uuid": self._uuid,
            },
        }
