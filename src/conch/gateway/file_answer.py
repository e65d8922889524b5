"""A transcript as the bodies of OpenAI's transcription answers.

Pure. Formats: openai-python v3.3.1, `types/audio/transcription*.py`.
"""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from conch.gateway.file_request import MAX_IGNORED, FileRequest
from conch.wire.formats import FORMATS
from conch.wire.joining import compression_ratio, joined_text, num_words, separator
from conch.wire.languages import LANGUAGES
from conch.wire.result import Segment, Transcript, Word, strict_json

SEEKS_PER_S = 100
"""Frames of Whisper a second."""
CONTENT_TYPES = {
    **dict.fromkeys(
        ("json", "verbose_json", "diarized_json", "conch", "seglst"), "application/json"
    ),
    # OpenAI's JavaScript client parses by the type, and reads all but JSON as text.
    **dict.fromkeys(("text", "srt", "ctm", "stm", "rttm"), "text/plain"),
    "vtt": "text/vtt",
}
LEAST_LOGPROB = -100.0
"""Logarithm that stands for a probability of 0, and for an unknown one."""
MAX_HEADER = 1500
"""Characters of the header of warnings: proxies take 4 to 8 kB of headers."""
RECORDING = "audio"
"""Name of every recording in CTM and STM: a form need not name its file."""


def body(transcript: Transcript, request: FileRequest) -> str:
    transcript = _with_warnings(transcript, request)
    match request.format:
        case "conch":
            return transcript.to_json()
        case "json":
            answer = plain(transcript, request)
        case "diarized_json":
            answer = diarized(transcript)
        case "diarization":
            answer = who_speaks(transcript)
        case "verbose_json":
            answer = verbose(transcript, request)
        case _:
            return FORMATS[request.format](transcript, RECORDING)
    return strict_json(answer | _warnings(transcript))


def _with_warnings(transcript: Transcript, request: FileRequest) -> Transcript:
    """Return a transcript with the warnings about the request first."""
    return replace(transcript, warnings=(*request.warnings, *transcript.warnings))


def headers(request: FileRequest, of_audio: Sequence[str] = ()) -> dict[str, str]:
    return ignored_header(request.ignored) | warnings_header((*request.warnings, *of_audio))


def warnings_header(warnings: Sequence[str]) -> dict[str, str]:
    """Return the header with as many warnings as it has room for; none without any."""
    while len(text := json.dumps(warnings)) > MAX_HEADER:  # in ASCII
        warnings = warnings[:-1]
    return {"x-conch-warnings": text} if warnings else {}


def ignored_header(names: Iterable[str]) -> dict[str, str]:
    """Return the header with the ignored fields, whose names a client chooses; none without any."""
    shown = [name for name in names if name.isascii() and name.isprintable()][:MAX_IGNORED]
    return {"x-conch-ignored": ", ".join(shown)} if shown else {}


def _warnings(transcript: Transcript) -> dict[str, Any]:
    """Return the field of the warnings, none without any: OpenAI's answers do not have it."""
    return {"warnings": list(transcript.warnings)} if transcript.warnings else {}


def plain(transcript: Transcript, request: FileRequest) -> dict[str, Any]:
    """Return the body of format json."""
    answer: dict[str, Any] = {"text": transcript.text, "usage": usage(transcript.duration)}
    if request.has_logprobs:
        answer["logprobs"] = logprobs(transcript.words)
    return answer


def diarized(transcript: Transcript) -> dict[str, Any]:
    """Return the body of format diarized_json: a segment is a turn of one speaker."""
    return {
        "task": "transcribe",
        "duration": transcript.duration,
        "text": transcript.text,
        "segments": list(turn_events(transcript)),
        "usage": usage(transcript.duration),
    }


def who_speaks(transcript: Transcript) -> dict[str, Any]:
    """Return the body of /v1/audio/diarization: turns, which may overlap."""
    segments = [
        {"start": turn.start, "end": turn.end, "speaker": turn.speaker} for turn in transcript.turns
    ]
    return {"duration": transcript.duration, "segments": segments}


def turn_events(transcript: Transcript) -> Iterator[dict[str, Any]]:
    """Yield the segments of diarized_json, which are events of a streamed answer too."""
    spoken = (segment for segment in transcript.segments if segment.text)
    for number, segment in enumerate(spoken):
        yield {
            "type": "transcript.text.segment",
            "id": f"seg_{number:03d}",
            "start": segment.start,
            "end": segment.end,
            "text": segment.text,
            "speaker": segment.speaker,
        }


def verbose(transcript: Transcript, request: FileRequest) -> dict[str, Any]:
    """Return the body of format verbose_json."""
    requested = request.options.language
    language = transcript.language or ("unknown" if requested == "auto" else requested)
    answer: dict[str, Any] = {
        "task": request.options.task,
        "language": LANGUAGES.get(language, language),
        "duration": transcript.duration,
        "text": transcript.text,
        "usage": usage(transcript.duration),
    }
    if "segment" in request.granularities:
        spoken = [segment for segment in transcript.segments if segment.text]
        # As Whisper's: clients join them directly, and the first one begins with a space too.
        before = [*(item.text for item in spoken[:1]), *(item.text for item in spoken)]
        answer["segments"] = [
            _segment(number, item, separator(before[number], item.text))
            for number, item in enumerate(spoken)
        ]
    if "word" in request.granularities:
        answer["words"] = [
            {"word": word.text, "start": word.start, "end": word.end} for word in transcript.words
        ]
    return answer


def _segment(number: int, segment: Segment, space: str) -> dict[str, Any]:
    text = segment.text
    return {
        "id": number,
        "seek": round(segment.start * SEEKS_PER_S),
        "start": segment.start,
        "end": segment.end,
        "text": f"{space}{text}",
        # The decoder returns no tokens.
        "tokens": [],
        "temperature": 0.0,
        # Per word: there is no number of tokens. Whisper's own is per token.
        "avg_logprob": segment.nbest[0].am_score / max(1, num_words(text)),
        "compression_ratio": compression_ratio(text),
        # A segment is where the VAD has found speech.
        "no_speech_prob": 0.0,
    }


def logprobs(words: Sequence[Word], before: str = "") -> list[dict[str, Any]]:
    """Return words after a text with their log probabilities, in OpenAI's form of tokens."""
    texts = [before, *(word.text for word in words)]
    tokens = []
    for pair, word in zip(pairwise(texts), words, strict=True):
        token = separator(*pair) + word.text
        is_known = word.confidence > 0  # not NaN either
        logprob = math.log(word.confidence) if is_known else LEAST_LOGPROB
        tokens.append({"token": token, "bytes": list(token.encode()), "logprob": logprob})
    return tokens


def usage(seconds: float) -> dict[str, Any]:
    """Return the usage of an answer: whole seconds of audio."""
    return {"type": "duration", "seconds": math.ceil(seconds)}


class Deltas:
    """The events of a streamed answer; the deltas, joined, are the text of the last one."""

    def __init__(self, request: FileRequest) -> None:
        self._request = request
        self._text = ""

    def of_part(self, part: Transcript) -> Iterator[dict[str, Any]]:
        """Yield the events of a part of the answer: one for each segment with a text."""
        if self._request.format == "conch":
            if part.segments:
                yield {"type": "transcript.part", "transcript": part}
            return
        for segment in part.segments:
            if not segment.text:
                continue
            before, self._text = self._text, joined_text((self._text, segment.text))
            delta = self._text[len(before) :]
            event: dict[str, Any] = {"type": "transcript.text.delta", "delta": delta}
            if self._request.has_logprobs:
                event["logprobs"] = logprobs(segment.words, before)
            yield event

    def of_turns(self, whole: Transcript) -> Iterator[dict[str, Any]]:
        """Yield the events of turns, which are known only at the end, if they are asked for."""
        if self._request.format == "diarized_json":
            yield from turn_events(whole)

    def of_whole(self, whole: Transcript) -> dict[str, Any]:
        whole = _with_warnings(whole, self._request)
        if self._request.format == "conch":
            return {"type": "transcript.done", "transcript": whole}
        # No usage: in this event it counts tokens.
        event: dict[str, Any] = {"type": "transcript.text.done", "text": self._text}
        if self._request.has_logprobs:
            event["logprobs"] = logprobs(whole.words)
        return event | _warnings(whole)
