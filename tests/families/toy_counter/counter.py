"""Counts a word in every segment when all of a recording is known, by a component of its own."""

from collections.abc import Sequence

from conch.bls.calls import Calls
from conch.component import bytes_array
from conch.recognition.hooks import AfterRecordingResult, RecognisedSpeech
from conch.wire.options import RecognitionOptions
from tests.families.toy_counter import CounterOptions


async def count(
    recognised: Sequence[RecognisedSpeech], options: RecognitionOptions, calls: Calls
) -> AfterRecordingResult:
    """Ask `word_counter` once for all texts."""
    asked = options.of(CounterOptions)
    segments = [item.segment for item in recognised]
    inputs = {
        "texts": bytes_array([segment.text for segment in segments]),
        "word": bytes_array([asked.count_word]),
    }
    outputs = await calls("word_counter", inputs, ("counts",), {"at_most": asked.count_most})
    return AfterRecordingResult(segments, {"counts": outputs["counts"].numpy().tolist()})
