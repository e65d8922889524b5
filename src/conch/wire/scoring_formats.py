"""Write a transcript as CTM, STM, RTTM and SegLST, the formats of scoring tools.

CTM has a line for each word and is what NIST's `sclite` scores; STM has a line for each segment and
is what CTM is scored against (https://github.com/usnistgov/SCTK/blob/master/doc/infmts.htm). RTTM
has who speaks when, SegLST who says what.
"""

import math
import string
from collections.abc import Sequence
from dataclasses import replace

from conch.wire.result import Segment, Transcript, Turn, Word, strict_json
from conch.wire.subtitles import milliseconds, pieces_of, tokens_of

_LETTERS = string.ascii_uppercase
_ALTERNATION = str.maketrans({"{": "(", "}": ")"})
"""STM's `{ uh / um }` are alternatives; no text means that. CTM has the same words."""


def to_ctm(transcript: Transcript, name: str) -> str:
    """Return a line `file channel start duration word confidence` for each word.

    Times are seconds with milliseconds. Words without times share those of their segment. A
    confidence that is not known is left out. `name` is that of the recording; spaces in it become
    `_`.
    """
    lines = []
    for number, segments in transcript.by_channel():
        begins = f"{recording_name(name)} {_channel(number)}"
        confidences = (item for segment in segments for item in _confidences(segment))
        for token, confidence in zip(tokens_of(segments), confidences, strict=True):
            start, length = token.start_ms, max(1, token.end_ms - token.start_ms)
            times = f"{_seconds(start)} {_seconds(length)}"
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
            text = " ".join(map(_word, _texts(segment)))
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
    place = max(0, number - 1)
    return _LETTERS[place] if place < len(_LETTERS) else str(number)


def _confidences(segment: Segment) -> list[str]:
    """Return the column of each word; empty where the confidence is not known."""
    found = [word.confidence for word in _timed(segment)] or [math.nan] * len(_texts(segment))
    return ["" if math.isnan(confidence) else f" {confidence:.4f}" for confidence in found]


def _texts(segment: Segment) -> Sequence[str]:
    return [word.text for word in _timed(segment)] or pieces_of(segment.text)


def _timed(segment: Segment) -> list[Word]:
    return [word for word in segment.words if word.text.strip()]


def _word(text: str) -> str:
    return "_".join(text.split()).translate(_ALTERNATION)


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.3f}"
