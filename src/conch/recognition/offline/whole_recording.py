"""The hooks over a whole recording, which run when all of its segments are known."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from conch.bls.calls import Calls
from conch.recognition.hooks import AfterRecordingResult, RecognisedSpeech, after_recording
from conch.recognition.speech import SpeechSegment
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment

Keep = Callable[[SpeechSegment], None]
"""Keeps the audio of a segment."""


class WholeRecording:
    """Keeps the audio of a recording's segments for the hooks; without hooks, nothing."""

    def __init__(self, options: RecognitionOptions) -> None:
        self._options, self._hooks = options, after_recording(options)
        self._speech: dict[int, list[SpeechSegment]] = defaultdict(list)
        """By channel, in order of time."""

    def keep(self, channel: int) -> Keep | None:
        """Return what keeps the audio of a channel's segments; None if no hook needs it."""
        return partial(self._keep, channel) if self._hooks else None

    async def finished(self, segments: Sequence[Segment], calls: Calls) -> AfterRecordingResult:
        """Return the segments as the hooks leave them, and what else they have found."""
        if not self._hooks:
            return AfterRecordingResult(segments)
        speech = {channel: iter(kept) for channel, kept in self._speech.items()}
        audio = [next(speech[segment.channel]) for segment in segments]
        extra: dict[str, Any] = {}
        for hook in self._hooks:
            recognised = [RecognisedSpeech(*pair) for pair in zip(segments, audio, strict=True)]
            after = await hook(recognised, self._options, calls)
            segments, extra = after.segments, {**extra, **after.extra}
        return AfterRecordingResult(segments, extra)

    def _keep(self, channel: int, speech: SpeechSegment) -> None:
        self._speech[channel].append(speech)
