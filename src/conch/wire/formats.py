"""Write a transcript as text, JSON, SubRip (SRT), WebVTT, CTM, STM, RTTM or SegLST."""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import groupby
from typing import Any

from conch.wire.errors import OptionError
from conch.wire.joining import joined_text
from conch.wire.result import Segment, Transcript, strict_json
from conch.wire.scoring_formats import to_ctm, to_rttm, to_seglst, to_stm
from conch.wire.subtitles import Cue, cues
from conch.wire.turns import cut_by_speaker

_ARROW = re.compile("-{2,}>")


def to_text(transcript: Transcript) -> str:
    """Return the best hypothesis; with known speakers or split channels, a line for each turn."""
    parts = (part for segment in transcript.segments for part in cut_by_speaker(segment))
    spoken = [segment for segment in parts if segment.text]
    if len(transcript.channels) < 2 and not any(segment.speaker for segment in spoken):
        return transcript.text + "\n"

    def label(segment: Segment) -> str:
        return f"{segment.speaker}:" if segment.speaker else f"[{segment.channel}]"

    return "".join(
        f"{begins} {joined_text(segment.text for segment in segments)}\n"
        for begins, segments in groupby(spoken, label)
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
"""What writes a transcript, by format; the second argument is the name of the recording."""
TIMED_FORMATS = frozenset(("srt", "vtt", "ctm"))
"""Formats that are better with word times, or need them."""
SPEAKER_FORMATS = frozenset(("rttm", "seglst", "diarized_json", "diarization"))
"""Formats that say who speaks; the last two are the gateway's."""


def with_options_of(formats: Sequence[str], sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a request, with those that formats need where none was sent."""
    needed: dict[str, Any] = {}
    if TIMED_FORMATS.intersection(formats):
        needed["word_timestamps"] = True
    if who := [name for name in formats if name in SPEAKER_FORMATS]:
        needed["speakers"] = "auto"
        if sent.get("speakers") == "off":
            raise OptionError(
                f"option 'speakers' takes auto or a number with the format {who[0]}, which says "
                "who speaks; sent: 'off'"
            )
    return needed | dict(sent)
