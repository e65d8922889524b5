"""Tells speakers apart by how loud they are, which is known when all of a recording is."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from conch.bls.calls import Calls
from conch.recognition.hooks import AfterRecording, AfterRecordingResult, RecognisedSpeech
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment


class Speakers(AfterRecording):
    """Writes the speaker in front of each text; the loudest of the recording is A."""

    def is_asked(self, options: RecognitionOptions) -> bool:
        return options.word_timestamps

    async def after(
        self, recognised: Sequence[RecognisedSpeech], options: RecognitionOptions, calls: Calls
    ) -> AfterRecordingResult:
        loudness = [float(np.abs(item.speech.waveform).max()) for item in recognised]
        ranks = sorted(set(loudness), reverse=True)
        speakers = ["ABCDEFGH"[ranks.index(level)] for level in loudness]
        pairs = list(zip(recognised, speakers, strict=True))
        turns = [
            {"speaker": speaker, "start": item.segment.start, "channel": item.segment.channel}
            for item, speaker in pairs
        ]
        named = [_named(item.segment, speaker) for item, speaker in pairs]
        return AfterRecordingResult(named, {"turns": turns})


class Count(AfterRecording):
    """Counts what was said, and changes nothing."""

    def is_asked(self, options: RecognitionOptions) -> bool:
        return options.word_timestamps or options.lm_context

    async def after(
        self, recognised: Sequence[RecognisedSpeech], options: RecognitionOptions, calls: Calls
    ) -> AfterRecordingResult:
        texts = [item.segment.text for item in recognised]
        return AfterRecordingResult([item.segment for item in recognised], {"texts": texts})


def _named(segment: Segment, speaker: str) -> Segment:
    if not segment.text:
        return segment
    best = replace(segment.nbest[0], text=f"{speaker}: {segment.text}")
    return replace(segment, nbest=(best,))


SPEAKERS, COUNT = Speakers(), Count()
