"""`POST /v1/format`: a transcript as subtitles, or in another format for files."""

import asyncio
import ctypes
import math
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
from aiohttp import web
from msgspec import UNSET

from conch.client.aio import within
from conch.gateway.bodies import body_of
from conch.gateway.doors import FORMAT
from conch.gateway.errors import invalid
from conch.gateway.file_answer import CONTENT_TYPES, RECORDING
from conch.gateway.state import CALLER, GATEWAY
from conch.wire.errors import OptionError
from conch.wire.formats import FORMATS
from conch.wire.joining import joined_text
from conch.wire.limits import clipped
from conch.wire.result import Channel, Hypothesis, Segment, Transcript, Word
from conch.wire.speaker_names import check_names, renamed, unknown_label

Format = Literal["text", "srt", "vtt", "ctm", "stm", "rttm", "seglst"]
Seconds = Annotated[float, msgspec.Meta(ge=-1e6, le=1e6)]

MAX_BYTES = FORMAT.max_message_bytes
"""Largest body: a day of words takes 10 MB."""
BODY_S = 60.0
WRITE_S = 60.0
"""Longest work for one transcript."""
BYTES_OF_BYTE = 24
"""Bytes in memory for each byte of a body."""

Result = TypeVar("Result")


class WrittenWord(msgspec.Struct, frozen=True):
    """A word of a transcript to write."""

    text: str
    """The word, with its punctuation."""
    start: Seconds
    """Seconds on the audio's clock."""
    end: Seconds
    """Seconds on the audio's clock."""
    confidence: float | None = None
    """Confidence in (0, 1], which ctm shows."""
    speaker: str = ""
    """Who says it, in a segment of several speakers."""


class WrittenSegment(msgspec.Struct, frozen=True):
    """A segment of a transcript to write."""

    start: Seconds
    """Seconds on the audio's clock."""
    end: Seconds
    """Seconds on the audio's clock."""
    text: str = ""
    """The text."""
    words: tuple[WrittenWord, ...] = ()
    """The words; without them, the words of the text share its time."""
    channel: int = 0
    """Number of the channel, from 1; 0 if the channels are mixed."""
    language: str = ""
    """Code of the language, which stm shows."""
    speaker: str = ""
    """Label of the speaker."""


class WrittenTranscript(msgspec.Struct, frozen=True):
    """A transcript to write; further keys, as those of response_format=conch, are ignored."""

    segments: tuple[WrittenSegment, ...]
    """Segments in order of time."""
    text: str | None = None
    """The whole text; by default that of the segments."""
    duration: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 0.0
    """Seconds of audio, after which no cue ends; 0 if it is not known."""
    channels: tuple[Any, ...] = ()
    """The channels, if they are split: with several, each line or cue has its channel."""


class FormatRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A transcript, and how to write it."""

    transcript: WrittenTranscript
    """The transcript."""
    format: Format
    """The format, as response_format of a transcription."""
    name: str = RECORDING
    """Name of the recording, which ctm and stm show."""
    speaker_names: dict[str, str] = {}
    """Names of speakers, by the labels of the transcript."""


async def write(request: web.Request) -> web.Response:
    gateway, caller = request.app[GATEWAY], request[CALLER]
    length = min(request.content_length or MAX_BYTES, MAX_BYTES)
    size = min(length * BYTES_OF_BYTE, gateway.largest_upload)
    with gateway.transcript_of(caller), gateway.uploads.taken(size, caller.name, gateway.share):
        body = await body_of(request, MAX_BYTES, BODY_S)
        # Few at once: the cues of a day take a core for seconds.
        message = f"transcript: it takes more than {WRITE_S:g} s to write; send it in parts"
        async with gateway.writing, within(WRITE_S, invalid("transcript", message)):
            work = in_own_thread(partial(_written, body))
            parsed, text = await gateway.unless_broken_off(work)
    return web.Response(text=text, content_type=CONTENT_TYPES[parsed.format])


def _written(body: bytes) -> tuple[FormatRequest, str]:
    parsed = read(body)
    transcript, names = transcript_of(parsed.transcript), parsed.speaker_names
    check_names(names)
    if problem := unknown_label(transcript, names):
        raise OptionError(problem)
    return parsed, FORMATS[parsed.format](renamed(transcript, names), parsed.name)


def read(body: bytes) -> FormatRequest:
    """Return the request in a body; raise an ApiError whose `param` names a wrong field."""
    try:
        return msgspec.json.decode(body, type=FormatRequest)
    except msgspec.ValidationError as error:
        problem, _, location = str(error).partition(" - at ")
        matches = re.search(r"`\$\.(.+)`", location), re.search(r"field `(.+)`", problem)
        param = clipped(".".join(match[1] for match in matches if match)) or "body"
        takes = f"takes {', '.join(get_args(Format))}: " if param == "format" else ""
        message = f"{param}: {takes}{clipped(problem)}"
    except (msgspec.DecodeError, RecursionError) as error:
        param, message = "body", f"the body takes JSON: {error}"
    raise invalid(param, message)


def transcript_of(written: WrittenTranscript) -> Transcript:
    """Return the transcript to write; it has no scores."""

    def word_of(item: WrittenWord) -> Word:
        confidence = math.nan if item.confidence is None else item.confidence
        return Word(item.text, item.start, item.end, confidence, item.speaker or UNSET)

    def segment_of(item: WrittenSegment) -> Segment:
        best, words = Hypothesis(item.text, 0.0, 0.0), tuple(map(word_of, item.words))
        return Segment(
            item.start,
            item.end,
            (best,),
            words,
            channel=item.channel,
            language=item.language,
            speaker=item.speaker,
        )

    segments = tuple(map(segment_of, written.segments))
    text = joined_text(item.text for item in segments) if written.text is None else written.text
    return Transcript(
        nbest=(Hypothesis(text, 0.0, 0.0),),
        segments=segments,
        duration=written.duration,
        path=(),
        stages={},
        channels=tuple(Channel(number, "", 0.0) for number, _ in enumerate(written.channels, 1)),
    )


async def in_own_thread(work: Callable[[], Result]) -> Result:
    """Return what work returns; a cancellation ends it at its next step in Python.

    A thread of asyncio's own would go on, and a gateway that stops would wait for it.
    """
    done: Future[Result] = Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        return await asyncio.wrap_future(done)
    except asyncio.CancelledError:
        ident, ending = ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ending)
        raise
