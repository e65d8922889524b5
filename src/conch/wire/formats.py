"""Write a transcript as text, JSON, SubRip (SRT) or WebVTT."""

import html
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import groupby
from typing import Any

from conch.wire.result import Segment, Transcript, Word, strict_json

MAX_LINE_CHARS = 42
MAX_LINES = 2
MAX_CUE_S = 7.0
MAX_PAUSE_S = 0.5
"""A longer pause ends a cue."""
MIN_SENTENCE_S = 1.0
"""A shorter sentence shares its cue with the next one, so that there is time to read it."""
SENTENCE_ENDS = (".", "!", "?", "…")
CLAUSE_ENDS = (*SENTENCE_ENDS, ",", ";", ":", "—")
CLOSING_MARKS = "\"')]\N{RIGHT DOUBLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}"


@dataclass(frozen=True, slots=True)
class Cue:
    """The lines of a subtitle, shown from `start_ms` to `end_ms`."""

    start_ms: int
    end_ms: int
    lines: tuple[str, ...]


def to_text(transcript: Transcript) -> str:
    """Return the best hypothesis as one line, or one line per turn if the channels are split."""
    if not _is_split(transcript):
        return transcript.text + "\n"
    spoken = [segment for segment in transcript.segments if segment.text]
    turns = groupby(spoken, lambda segment: segment.channel)
    return "".join(
        f"[{channel}] {' '.join(segment.text for segment in segments)}\n"
        for channel, segments in turns
    )


def to_json(transcript: Transcript, *, indent: int | None = None, **extra: str) -> str:
    """Return a transcript as a JSON object that people can read.

    The fields of the best hypothesis are part of the object, or of the segment. The other
    hypotheses are in `alternatives`. Fields with their default value are left out.

    Args:
        transcript: The transcript to write.
        indent: Number of spaces; None for one line.
        **extra: Further keys, written first.
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
    """Return subtitles in the SubRip format."""
    # A player would read a line with an arrow as a line of times.
    return "".join(
        f"{number}\n{_time(cue.start_ms, ',')} --> {_time(cue.end_ms, ',')}\n"
        + "".join(line.replace("-->", "->") + "\n" for line in cue.lines)
        + "\n"
        for number, cue in enumerate(cues(transcript), 1)
    )


def to_webvtt(transcript: Transcript) -> str:
    """Return subtitles in the WebVTT format."""
    return "WEBVTT\n\n" + "".join(
        f"{_time(cue.start_ms, '.')} --> {_time(cue.end_ms, '.')}\n"
        + "".join(html.escape(line, quote=False) + "\n" for line in cue.lines)
        + "\n"
        for cue in cues(transcript)
    )


def cues(transcript: Transcript) -> list[Cue]:
    """Return subtitle cues in order of time. No cue is empty, and cues of a channel do not overlap.

    A segment with word times gives cues of at most MAX_LINES lines and MAX_CUE_S. They end at
    sentences and pauses. A line has at most MAX_LINE_CHARS; a longer word has a line of its own.
    A segment without word times is one cue with as many lines as it needs. If the channels are
    split, each cue begins with its channel number.
    """
    made: list[Cue] = []
    ends_ms: dict[int, int] = {}
    for segment in transcript.segments:
        label = f"[{segment.channel}] " if _is_split(transcript) else ""
        for start, end, lines in _spans(segment, label):
            # Each word is timed by itself, so that times may overlap a little.
            start_ms = max(round(start * 1000), ends_ms.get(segment.channel, 0))
            cue = Cue(start_ms, max(round(end * 1000), start_ms + 1), tuple(lines))
            ends_ms[segment.channel] = cue.end_ms
            made.append(cue)
    return sorted(made, key=lambda cue: cue.start_ms)


def _is_split(transcript: Transcript) -> bool:
    return len(transcript.channels) > 1


def _spans(segment: Segment, label: str) -> Iterator[tuple[float, float, list[str]]]:
    words = [word for word in segment.words if word.text.strip()]
    for group in _groups(words, label):
        start = group[0].start
        yield start, min(_end(group), start + MAX_CUE_S), _wrap(group, label)
    if not words and segment.text.strip():
        yield segment.start, segment.end, _lines(label + segment.text)


def _groups(words: Sequence[Word], label: str) -> Iterator[list[Word]]:
    """Yield the groups of words that share a cue."""
    group: list[Word] = []
    for word in words:
        if group and _is_end(group, word):
            yield group
            group = []
        while group and not _fits([*group, word], label):
            cut = _best_cut(group)
            yield group[:cut]
            group = group[cut:]
        group.append(word)
    if group:
        yield group


def _is_end(group: Sequence[Word], following: Word) -> bool:
    last = group[-1]
    if following.start - last.end > MAX_PAUSE_S:
        return True
    is_sentence = last.text.rstrip(CLOSING_MARKS).endswith(SENTENCE_ENDS)
    return is_sentence and last.end - group[0].start >= MIN_SENTENCE_S


def _fits(group: Sequence[Word], label: str) -> bool:
    return _end(group) - group[0].start <= MAX_CUE_S and len(_wrap(group, label)) <= MAX_LINES


def _end(group: Sequence[Word]) -> float:
    return max(word.end for word in group)


def _best_cut(group: Sequence[Word]) -> int:
    """Return the number of words to show first: up to the last clause end in the second half."""
    half = (len(group) + 1) // 2
    clauses = [i for i in range(half, len(group)) if group[i - 1].text.endswith(CLAUSE_ENDS)]
    return clauses[-1] if clauses else len(group)


def _wrap(group: Sequence[Word], label: str) -> list[str]:
    return _lines(label + " ".join(word.text.strip() for word in group))


def _lines(text: str) -> list[str]:
    return textwrap.wrap(text, MAX_LINE_CHARS, break_long_words=False, break_on_hyphens=False)


def _time(milliseconds: int, separator: str) -> str:
    seconds, ms = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}{separator}{ms:03d}"
