"""From the updates of live audio to Deepgram's messages. Nothing here waits or sends."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from conch.gateway.deepgram.parameters import ListenParameters
from conch.gateway.deepgram.results import Message, Writer, model_info, model_uuid
from conch.gateway.live_session import LiveUpdate
from conch.gateway.session_stream import LiveSegment
from conch.wire.result import Segment, Word

CHANNEL = [0, 1]
"""The first of one channel."""


class LiveResults:
    """The messages after each update of a session.

    An utterance is final after its second pass, and results that are final keep their order.
    """

    def __init__(self, asked: ListenParameters, request_id: str) -> None:
        self._asked = asked
        self._writer = Writer(is_punctuated=asked.is_punctuated)
        self._metadata = {
            "request_id": request_id,
            "model_info": model_info(asked.model),
            "model_uuid": model_uuid(asked.model),
        }
        self._ended: dict[int, LiveSegment] = {}
        """Utterances that have ended and were not sent, by index."""
        self._speaking: int | None = None
        """Index of the latest utterance whose begin was sent."""
        self._shown = ""
        self._word_end = math.inf
        """End of the latest final word."""
        self._waits_for_pause = self._waits_for_end = False
        """Whether no result with `speech_final`, and no UtteranceEnd, came after that word."""
        self.audio_s = 0.0
        """Seconds of audio recognised so far."""

    def after(self, update: LiveUpdate) -> Iterator[Message]:
        self.audio_s = update.audio_s
        if self._asked.has_vad_events:
            yield from self._speech(update)
        for item in update.segments:
            if not item.is_relabelled:
                self._ended[item.segment.index] = item
        finals = []
        while self._ended and self._ended[first := min(self._ended)].is_final:
            finals.append(self._ended.pop(first).segment)
        if update.finalized and not finals:
            finals.append(Segment(self.audio_s, self.audio_s, (), endpoint="finalize"))
        for segment in finals:
            yield self._final(segment, is_last=update.finalized and segment is finals[-1])
        if not self._ended:
            yield from self._open(update)

    def finish(self) -> Iterator[Message]:
        """Yield the utterances that have no second pass to come any more."""
        for index in sorted(self._ended):
            yield self._final(self._ended.pop(index).segment)

    def _speech(self, update: LiveUpdate) -> Iterator[Message]:
        if update.utterance is not None and self._speaking != update.index:
            self._speaking = update.index
            start = round(update.utterance.start, 3)
            yield {"type": "SpeechStarted", "channel": CHANNEL, "timestamp": start}
        elif update.utterance is None and self._speaking == update.index:
            # What the VAD took for speech has no words, and no segment: a client waits for an end.
            self._speaking = None
            yield self._final(Segment(self.audio_s, self.audio_s, (), endpoint="silence"))

    def _open(self, update: LiveUpdate) -> Iterator[Message]:
        """Yield what is to be said of the open utterance, or of the silence."""
        words = update.utterance.words if update.utterance else ()
        if update.utterance and words:
            if self._asked.has_interim and update.utterance.text != self._shown:
                self._shown = update.utterance.text
                start = update.utterance.start
                yield self._results(start, self.audio_s, self._shown, words, is_final=False)
            return
        silence_s = self.audio_s - self._word_end
        if self._waits_for_pause and silence_s >= self._asked.options.endpoint_silence_ms / 1000:
            # The utterance was cut by its length, and nothing followed.
            yield self._final(Segment(self.audio_s, self.audio_s, (), endpoint="silence"))
        if self._waits_for_end and silence_s >= self._asked.utterance_end_s:
            self._waits_for_end = False
            end = round(self._word_end, 3)
            yield {"type": "UtteranceEnd", "channel": CHANNEL, "last_word_end": end}

    def _final(self, segment: Segment, *, is_last: bool = False) -> Message:
        """Return the result of an utterance, `is_last` of those before a `Finalize`."""
        self._shown = ""
        is_pause = segment.endpoint == "silence" and self._asked.tells_endpoints
        is_end = is_pause or segment.endpoint in ("finalize", "end")
        self._waits_for_pause = not is_end and self._asked.tells_endpoints
        if segment.words:
            self._word_end = segment.words[-1].end
            self._waits_for_end = self._asked.utterance_end_s > 0
        return self._results(
            *(segment.start, segment.end, segment.text, segment.words),
            is_final=True,
            speech_final=is_end,
            from_finalize=is_last,
        )

    def _results(
        self, start: float, end: float, text: str, words: Sequence[Word], **flags: bool
    ) -> Message:
        alternative: dict[str, Any] = self._writer.alternative(text, words)
        return {
            "type": "Results",
            "channel_index": CHANNEL,
            "start": round(start, 3),
            "duration": round(max(0.0, end - start), 3),
            "speech_final": False,
            "from_finalize": False,
            **flags,
            "channel": {"alternatives": [alternative]},
            "metadata": self._metadata,
        }
