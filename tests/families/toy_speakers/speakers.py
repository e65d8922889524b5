"""Tells speakers apart by how loud they are, which is known when all of a recording is."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from conch.bls.calls import Calls
from conch.recognition.hooks import AfterRecordingResult, RecognisedSpeech
from conch.recognition.speech import SpeechSegment
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment


async def loudness(speech: SpeechSegment, options: RecognitionOptions, calls: Calls) -> float:
    return float(np.abs(speech.waveform).max())


async def name_speakers(
    recognised: Sequence[RecognisedSpeech], options: RecognitionOptions, calls: Calls
) -> AfterRecordingResult:
    """Write the speaker in front of each text; the loudest of the recording is A."""
    ranks = sorted({item.analysis for item in recognised}, reverse=True)
    speakers = ["ABCDEFGH"[ranks.index(item.analysis)] for item in recognised]
    pairs = list(zip(recognised, speakers, strict=True))
    turns = [
        {"speaker": speaker, "start": item.segment.start, "channel": item.segment.channel}
        for item, speaker in pairs
    ]
    named = [_named(item.segment, speaker) for item, speaker in pairs]
    return AfterRecordingResult(named, {"turns": turns})


async def count(
    recognised: Sequence[RecognisedSpeech], options: RecognitionOptions, calls: Calls
) -> AfterRecordingResult:
    """Count what was said, and change nothing."""
    texts = [item.segment.text for item in recognised]
    return AfterRecordingResult([item.segment for item in recognised], {"texts": texts})


def _named(segment: Segment, speaker: str) -> Segment:
    if not segment.text:
        return segment
    best = replace(segment.nbest[0], text=f"{speaker}: {segment.text}")
    return replace(segment, nbest=(best,))
