"""Write a transcript as text, JSON, SubRip (SRT), WebVTT, CTM, STM, RTTM or SegLST.

The last four are the formats of scoring tools. CTM has a line for each word and is what NIST's
`sclite` scores; STM has a line for each segment and is what CTM is scored against
(https://github.com/usnistgov/SCTK/blob/master/doc/infmts.htm). RTTM has who speaks when, SegLST who
says what.
"""

import html
import math
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import groupby
from typing import Any

from conch.wire.errors import OptionError
from conch.wire.paragraphs import paragraphs
from conch.wire.result import Segment, Transcript, Turn, strict_json
from conch.wire.subtitles import Cue, cues, milliseconds, timed_words, tokens_of
from conch.wire.turns import cut_by_speaker

_LETTERS = string.ascii_uppercase
_ALTERNATION = str.maketrans({"{": "(", "}": ")"})
"""STM's `{ uh / um }` are alternatives; no text means that. CTM has the same words."""
_ARROW = re.compile("-{2,}>")
TIMED_FORMATS = frozenset(("srt", "vtt", "ctm"))
"""Formats that are better with word times, or need them."""
SPEAKER_FORMATS = frozenset(("rttm", "seglst", "diarized_json", "diarization"))
"""Formats that say who speaks; the last two are the gateway's."""


def to_ctm(transcript: Transcript, name: str) -> str:
    """Return a line `file channel start duration word confidence` for each word.

    Times are seconds with milliseconds. Words without times share those of their segment. A
    confidence that is not known is left out. `name` is that of the recording; spaces in it become
    `_`.
    """
    lines = []
    for number, segments in transcript.by_channel():
        begins = f"{recording_name(name)} {_channel(number)}"
        words = (word for segment in segments for word in timed_words(segment))
        for token, word in zip(tokens_of(segments), words, strict=True):
            start, length = token.start_ms, max(1, token.end_ms - token.start_ms)
            times = f"{_seconds(start)} {_seconds(length)}"
            confidence = "" if math.isnan(word.confidence) else f" {word.confidence:.4f}"
            lines.append(f"{begins} {times} {_word(token.text)}{confidence}\n")
    return "".join(lines)


def to_stm(transcript: Transcript, name: str) -> str:
    """Return a line `file channel speaker start end <labels> words` for each segment with a text.

    Where no speaker is known, it is the channel, as `talk-A`. The labels are `o` for all segments
    and the language of the segment, if it is known; lines in front explain them, as the format asks
    for. Scripts without spaces have one between their words, or their letters if no word is timed,
    as CTM has.
    `name` is that of the recording, as for CTM.
    """
    spoken = [segment for segment in transcript.segments if segment.text.strip()]
    languages = sorted({_word(segment.language) for segment in spoken} - {""})
    lines = ['LABEL "o" "Overall" "All segments"']
    lines += [f'LABEL "{item}" "{item}" "Segments in the language {item}"' for item in languages]
    written = [f";; {line}\n" for line in lines] if spoken else []
    file = recording_name(name)
    for number, segments in replace(transcript, segments=tuple(spoken)).by_channel():
        channel, until_ms = _channel(number), 0
        for segment in segments:
            # Segments of one channel must not overlap.
            start_ms = max(milliseconds(segment.start), until_ms)
            until_ms = max(milliseconds(segment.end), start_ms + 1)
            times = f"{_seconds(start_ms)} {_seconds(until_ms)}"
            label = ",".join(filter(None, ("o", _word(segment.language))))
            text = " ".join(_word(word.text) for word in timed_words(segment))
            who = _word(segment.speaker) or f"{file}-{channel}"
            written.append(f"{file} {channel} {who} {times} <{label}> {text}\n")
    return "".join(written)


def to_rttm(transcript: Transcript, name: str) -> str:
    """Return a line `SPEAKER file 1 start duration <NA> <NA> speaker <NA> <NA>` for each turn.

    The format is that of NIST's Rich Transcription 2009. A transcript without turns has those of
    its segments that have a speaker.
    """
    turns = transcript.turns or [
        Turn(item.speaker, item.start, item.end)
        for item in transcript.segments
        if item.speaker.strip()
    ]
    file = recording_name(name)
    return "".join(
        f"SPEAKER {file} 1 {turn.start:.3f} {turn.end - turn.start:.3f} <NA> <NA> "
        f"{_word(turn.speaker)} <NA> <NA>\n"
        for turn in turns
    )


def to_seglst(transcript: Transcript, name: str) -> str:
    """Return SegLST, the JSON of CHiME's scorers (meeteval): an object for each segment."""
    segments = [
        {
            "session_id": recording_name(name),
            "speaker": segment.speaker,
            "start_time": segment.start,
            "end_time": segment.end,
            "words": segment.text,
        }
        for segment in transcript.segments
        if segment.text
    ]
    return strict_json(segments, indent=2) + "\n"


def recording_name(name: str) -> str:
    """Return the name of a file without folders, endings and spaces; `audio` if nothing is left.

    >>> recording_name("/calls/call of may.wav")
    'call_of_may'
    """
    stem = name.rstrip("/").rpartition("/")[2]
    stem = stem.rpartition(".")[0] or stem
    return "_".join(stem.replace(";", "_").split()) or "audio"


def _channel(number: int) -> str:
    index = max(0, number - 1)
    return _LETTERS[index] if index < len(_LETTERS) else str(number)


def _word(text: str) -> str:
    return "_".join(text.split()).translate(_ALTERNATION)


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.3f}"


def to_text(transcript: Transcript) -> str:
    """Return the best hypothesis in paragraphs; of speakers and split channels, a line each."""
    parts = (part for segment in transcript.segments for part in cut_by_speaker(segment))
    spoken = [segment for segment in parts if segment.text]
    if len(transcript.channels) < 2 and not any(segment.speaker for segment in spoken):
        made = paragraphs(spoken)
        # A live answer has the segments that are new, and the whole text.
        is_whole = "".join("".join(made).split()) == "".join(transcript.text.split())
        return "\n\n".join(made if is_whole else [transcript.text]) + "\n"

    def label(segment: Segment) -> str:
        return f"{segment.speaker}:" if segment.speaker else f"[{segment.channel}]"

    return "".join(
        f"{begins} {paragraph}\n"
        for begins, segments in groupby(spoken, label)
        for paragraph in paragraphs(segments)
    )


def to_json(transcript: Transcript, *, indent: int | None = None, **extra: str) -> str:
    """Return a transcript as a JSON object that people can read, with `extra` as its first keys.

    The fields of the best hypothesis are part of the object, or of the segment. The other
    hypotheses are in `alternatives`. Fields with their default value are left out. Without
    `indent`, it is one line.
    """
    data = {**extra, **_plain(transcript, len(transcript.nbest))}
    return strict_json(data, indent=indent) + "\n"


def _plain(item: Any, nbest: int) -> Any:
    """Return the JSON value of a dataclass, a sequence, a mapping or a plain value."""
    if isinstance(item, Mapping):
        return {name: _plain(value, nbest) for name, value in item.items()}
    if isinstance(item, Sequence) and not isinstance(item, str):
        return [_plain(value, nbest) for value in item]
    if not is_dataclass(item):
        return item
    plain = {
        field.name: _plain(getattr(item, field.name), nbest)
        for field in fields(item)
        if field.name != "nbest" and getattr(item, field.name) != field.default
    }
    best, *others = _plain(getattr(item, "nbest", ()), nbest)[:nbest] or [{}]
    return {**best, **({"alternatives": others} if others else {}), **plain}


def to_srt(transcript: Transcript) -> str:
    # A player would read a line with an arrow as a line of times.
    return "".join(
        f"{number}\n{_time(cue.start_ms, ',')} --> {_time(cue.end_ms, ',')}\n"
        + "".join(_ARROW.sub("->", line) + "\n" for line in cue.lines)
        + "\n"
        for number, cue in enumerate(cues(transcript), 1)
    )


def to_webvtt(transcript: Transcript) -> str:
    return "WEBVTT\n\n" + "".join(
        f"{_time(cue.start_ms, '.')} --> {_time(cue.end_ms, '.')}\n{_webvtt_lines(cue)}\n"
        for cue in cues(transcript)
    )


def _webvtt_lines(cue: Cue) -> str:
    lines = "".join(html.escape(line, quote=False) + "\n" for line in cue.lines)
    if not cue.speaker:
        return lines
    who = html.escape(cue.speaker, quote=False)
    return f"<v {who}>{lines.removeprefix(f'{who}: ')}"


def _time(milliseconds: int, separator: str) -> str:
    seconds, ms = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}{separator}{ms:03d}"


FORMATS: Mapping[str, Callable[[Transcript, str], str]] = {
    "text": lambda transcript, _: to_text(transcript),
    "json": lambda transcript, _: to_json(transcript),
    "srt": lambda transcript, _: to_srt(transcript),
    "vtt": lambda transcript, _: to_webvtt(transcript),
    "ctm": to_ctm,
    "stm": to_stm,
    "rttm": to_rttm,
    "seglst": to_seglst,
}
"""Writers of a transcript, by format; the second argument is the name of the recording."""


def with_options_of(formats: Sequence[str], sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a request, and what the formats need where the request does not say it."""
    needed: dict[str, Any] = {}
    if TIMED_FORMATS.intersection(formats):
        needed["word_timestamps"] = True
    if who := [name for name in formats if name in SPEAKER_FORMATS]:
        needed["speakers"] = "auto"
        if sent.get("speakers") == "off":
            takes = f"auto or a number with the format {who[0]}, which says who speaks"
            raise OptionError.of("speakers", takes, "off")
    return needed | dict(sent)
