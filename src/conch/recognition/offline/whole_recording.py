"""The hooks over a whole recording, which run when all of its segments are known."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from conch.bls.calls import Calls
from conch.recognition.hooks import AfterRecordingResult, RecognisedSpeech, after_recording
from conch.recognition.speech import SpeechSegment
from conch.wire.options import RecognitionOptions
from conch.wire.result import Segment


class WholeRecording:
    """Keeps the audio of a recording's segments for the hooks; without hooks, nothing."""

    def __init__(self, options: RecognitionOptions) -> None:
        self._options, self._hooks = options, after_recording(options)
        self.kept: dict[int, list[SpeechSegment]] = defaultdict(list)
        """By channel, in order of time."""

    def keep(self, channel: int, speech: SpeechSegment) -> None:
        """Keep the audio of a channel's next segment, if a hook needs it."""
        if self._hooks:
            self.kept[channel].append(speech)

    async def finished(self, segments: Sequence[Segment], calls: Calls) -> AfterRecordingResult:
        """Return the segments, in order of time, as the hooks leave them, and what else they found.

        Raises:
            TranscriptionError: a call failed; see `Calls`.
        """
        if not self._hooks:
            return AfterRecordingResult(segments)
        speech = {channel: iter(kept) for channel, kept in self.kept.items()}
        audio = [next(speech[segment.channel]) for segment in segments]
        extra: dict[str, Any] = {}
        for hook in self._hooks:
            recognised = [RecognisedSpeech(*pair) for pair in zip(segments, audio, strict=True)]
            after = await hook(recognised, self._options, calls)
            segments, extra = after.segments, {**extra, **after.extra}
        return AfterRecordingResult(segments, extra)
