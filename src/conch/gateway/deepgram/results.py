"""Texts as Deepgram's clients read them: words, alternatives, utterances and paragraphs. Pure."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import count
from typing import Any, TypeAlias
from uuid import NAMESPACE_OID, uuid5

import conch
from conch.gateway.deepgram.parameters import ListenParameters
from conch.wire.joining import joined_text
from conch.wire.result import Segment, Transcript, Word, text_of_words

Message: TypeAlias = Mapping[str, Any]

PARAGRAPH_S = 2.0
"""Seconds of silence between two paragraphs."""
_AROUND = re.compile(r"^[^\w$€£¥]+|[^\w%°]+$")
"""Punctuation before and after a word."""
_SENTENCE_END = re.compile(r"[.!?…。\uff01\uff1f][\"'”\u2019)]*$")


class Writer:
    """Writes words and texts as a request asks for them."""

    def __init__(self, *, is_punctuated: bool) -> None:
        self._is_punctuated = is_punctuated
        self._speakers: defaultdict[Any, int] = defaultdict(count().__next__)
        """Numbers of speakers, in the order in which they first speak."""

    def alternative(self, text: str, words: Sequence[Word]) -> dict[str, Any]:
        confidences = [word.confidence for word in words]
        return {
            "transcript": self.text(text, words),
            "confidence": sum(confidences) / max(1, len(confidences)),
            "words": [self.word(word) for word in words],
        }

    def text(self, text: str, words: Sequence[Word]) -> str:
        if self._is_punctuated:
            return text
        return joined_text(map(_bare, [word.text for word in words] or text.split()))

    def word(self, word: Word) -> dict[str, Any]:
        return {
            "word": _bare(word.text),
            "start": word.start,
            "end": word.end,
            "confidence": word.confidence,
            **({"punctuated_word": word.text} if self._is_punctuated else {}),
            **self.speaker(word),
        }

    def speaker(self, word: Word) -> dict[str, int]:
        """Return the field of who says a word; none if that is not known."""
        return {"speaker": self._speakers[word.speaker]} if word.speaker else {}


def _bare(text: str) -> str:
    return _AROUND.sub("", text).lower() or text


def model_info(model: str) -> dict[str, str]:
    return {"name": model, "version": conch.__version__, "arch": "conch"}


def model_uuid(model: str) -> str:
    return str(uuid5(NAMESPACE_OID, f"conch {model}"))


def metadata(
    request_id: str, model: str, digest: str, duration: float, channels: int
) -> dict[str, Any]:
    """Return what is known of the whole audio."""
    uuid = model_uuid(model)
    return {
        "transaction_key": "deprecated",
        "request_id": request_id,
        "sha256": digest,
        "created": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        "duration": round(duration, 3),
        "channels": channels,
        "models": [uuid],
        "model_info": {uuid: model_info(model)},
    }


def file_answer(
    transcript: Transcript, asked: ListenParameters, request_id: str, digest: str
) -> dict[str, Any]:
    """Return the answer to a recording."""
    writer = Writer(is_punctuated=asked.is_punctuated)
    of_channel = dict(transcript.by_channel())
    numbers = [channel.number for channel in transcript.channels] or [0]
    channels: list[dict[str, Any]] = []
    utterances: list[dict[str, Any]] = []
    for index, number in enumerate(numbers):
        segments = of_channel.get(number, [])
        words = [word for segment in segments for word in segment.words]
        best = writer.alternative(joined_text(item.text for item in segments), words)
        if asked.has_paragraphs:
            best["paragraphs"] = _paragraphs(writer, words)
        channels.append({"alternatives": [best], **_language(transcript, segments, asked)})
        if asked.has_utterances:
            for said in _grouped(words, _ends_after(asked.utterance_split_s)):
                uuid = uuid5(NAMESPACE_OID, f"{request_id} {index} {said[0].start}")
                place = {**_span(said), "channel": index, "id": str(uuid)}
                found = writer.alternative(text_of_words(said), said)
                utterances.append({**place, **found, **writer.speaker(said[0])})
    utterances.sort(key=lambda item: item["start"])
    return {
        "metadata": metadata(request_id, asked.model, digest, transcript.duration, len(channels)),
        "results": {
            "channels": channels,
            **({"utterances": utterances} if asked.has_utterances else {}),
        },
    }


def _language(
    transcript: Transcript, segments: Sequence[Segment], asked: ListenParameters
) -> dict[str, Any]:
    known = transcript.language or next((item.language for item in segments if item.language), "")
    return {"detected_language": known} if asked.tells_language and known else {}


def _paragraphs(writer: Writer, words: Sequence[Word]) -> dict[str, Any]:
    paragraphs, texts = [], []
    for said in _grouped(words, _ends_after(PARAGRAPH_S)):
        sentences = [
            {"text": writer.text(text_of_words(item), item), **_span(item)}
            for item in _grouped(said, lambda word, _: bool(_SENTENCE_END.search(word.text)))
        ]
        who = writer.speaker(said[0])
        place = {**_span(said), "num_words": len(said), **who}
        paragraphs.append({"sentences": sentences, **place})
        before = f"Speaker {who['speaker']}: " if who else ""
        texts.append(f"\n{before}{writer.text(text_of_words(said), said)}")
    return {"transcript": "\n".join(texts), "paragraphs": paragraphs}


def _span(words: Sequence[Word]) -> dict[str, float]:
    return {"start": words[0].start, "end": words[-1].end}


def _ends_after(pause_s: float) -> Callable[[Word, Word], bool]:
    """Return whether a group ends between two words: at a pause, or at another speaker."""
    return lambda word, after: (
        after.start - word.end >= pause_s or (word.speaker or "") != (after.speaker or "")
    )


def _grouped(words: Sequence[Word], ends: Callable[[Word, Word], bool]) -> Iterator[Sequence[Word]]:
    start = 0
    for at in range(1, len(words) + 1):
        if at == len(words) or ends(words[at - 1], words[at]):
            yield words[start:at]
            start = at
