"""Transcripts made up for tests."""

from typing import Any

from conch.wire.result import Channel, Hypothesis, Segment, Transcript, Word


def transcript(*segments: Segment, channels: int = 0, **fields: Any) -> Transcript:
    text = " ".join(segment.text for segment in segments)
    known = {
        "duration": segments[-1].end if segments else 0.0,
        "path": ("vad",),
        "stages": {},
        "channels": tuple(Channel(number + 1, "", -1.0) for number in range(channels)),
    }
    return Transcript((Hypothesis(text, -1.0, -1.0),), segments, **{**known, **fields})


def spoken(text: str, start: float = 0.0, word_s: float = 0.3, channel: int = 0) -> Segment:
    """Return a segment whose words follow each other; each `_` is a pause of half a second."""
    words = []
    clock = start
    for item in text.split():
        if item == "_":
            clock += 0.5
            continue
        words.append(Word(item, clock, clock + word_s, 0.9))
        clock += word_s
    best = Hypothesis(text.replace(" _", ""), -1, -1)
    return Segment(start, clock, (best,), tuple(words), channel=channel)


def silent(text: str, start: float, end: float) -> Segment:
    """Return a segment without words."""
    return Segment(start, end, (Hypothesis(text, -1, -1),))
