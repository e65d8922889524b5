"""Answer requests: check limits and options, and recognise every row."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager

from conch.audio.recording import Recording
from conch.orchestrator.absences import Absences
from conch.orchestrator.calls import Calls, Components, together, within_deadline
from conch.orchestrator.config import OrchestratorConfig
from conch.orchestrator.metrics import AUDIO_SECONDS, REQUESTS, Metrics
from conch.orchestrator.offline import recognize_channels
from conch.orchestrator.open_streams import OpenStreams
from conch.orchestrator.request import SpeechRequest, naming_row
from conch.wire.errors import InvalidRequestError, OverloadedError
from conch.wire.options import RecognitionOptions
from conch.wire.parts import transcript_of
from conch.wire.result import Segment, Transcript

OFFLINE = "offline"
MAX_WARNINGS = 10
"""Largest number of warnings about unrecognised speech. The segments have all of it."""


class Recognizer:
    """Answers any number of requests at once on one event loop."""

    def __init__(self, config: OrchestratorConfig, detached: Components) -> None:
        """Start without requests.

        Args:
            config: Limits.
            detached: Components for calls that belong to no request.
        """
        self._config = config
        self._in_flight = 0
        self.metrics = Metrics()
        self._absences = Absences(detached)
        self.open_streams = OpenStreams(config, detached, self.metrics, self._absences)

    async def recognize(self, request: SpeechRequest, components: Components) -> list[Transcript]:
        """Return one transcript per row, or the transcript after a live chunk.

        Args:
            request: The request. Its rows are recognised at the same time.
            components: Components for the calls of the request.

        Raises:
            TranscriptionError: the request or one of its components failed; see
                `conch.wire.errors`.
        """
        if request.stream_id:
            return [await self.open_streams.recognize(request, components)]
        with self._admitted():
            options = _options(request)
            calls = [self._calls(components, options) for _ in range(request.num_rows)]

            async def transcribe(row: int) -> Transcript:
                with naming_row(row, len(rows)):
                    async with aclosing(self._segments(rows[row], calls[row], options)) as segments:
                        found = [item async for item in segments]
                self._count_audio(rows[row])
                warnings = _warnings(rows[row], found)
                return _transcript(found, rows[row], calls[row], options, warnings)

            async with within_deadline(options.deadline_ms, calls[0]):
                rows = await self._opened(request, options)
                return await together(transcribe(row) for row in range(len(rows)))

    async def stream(
        self, request: SpeechRequest, components: Components
    ) -> AsyncGenerator[Transcript, None]:
        """Yield a transcript per segment of a request with one row, each as soon as it is ready.

        The last transcript has no segment. It carries the duration, the path and the timings of the
        whole audio, which are not known with the last segment.

        Args:
            request: The request.
            components: Components for the calls of the request.

        Raises:
            TranscriptionError: as `recognize`; the answer ends there.
        """
        with self._admitted():
            options = _options(request)
            calls = self._calls(components, options)
            async with within_deadline(options.deadline_ms, calls):
                (row,) = await self._opened(request, options)
                found = []
                async with aclosing(self._segments(row, calls, options)) as segments:
                    async for segment in segments:
                        if segment.text or segment.unrecognised:
                            found.append(segment)
                            yield _transcript([segment], row, calls, options)
                self._count_audio(row)
                yield _transcript([], row, calls, options, _warnings(row, found))

    @contextmanager
    def _admitted(self) -> Iterator[None]:
        with self.metrics.answering(REQUESTS, OFFLINE):
            if self._in_flight >= self._config.max_requests_in_flight:
                raise OverloadedError(
                    f"{self._in_flight} requests are in flight, as many as this server takes "
                    "(parameter max_requests_in_flight of the model); try again"
                )
            self._in_flight += 1
            try:
                yield
            finally:
                self._in_flight -= 1

    def _calls(self, components: Components, options: RecognitionOptions) -> Calls:
        return Calls(components, options.deadline_ms, self.metrics, OFFLINE, self._absences)

    async def _opened(self, request: SpeechRequest, options: RecognitionOptions) -> list[Recording]:
        if request.audio is None:
            return request.rows(options, self._config.max_audio_s)
        # In a thread: some files are decoded in part, to find samples or compare channels.
        return await asyncio.to_thread(request.rows, options, self._config.max_audio_s)

    def _segments(
        self, recording: Recording, calls: Calls, options: RecognitionOptions
    ) -> AsyncGenerator[Segment, None]:
        return recognize_channels(recording, options, calls, self._config.max_segments_in_flight)

    def _count_audio(self, recording: Recording) -> None:
        self.metrics.add(AUDIO_SECONDS, recording.duration, mode=OFFLINE)


def _options(request: SpeechRequest) -> RecognitionOptions:
    if request.stream_id or request.starts or request.ends:
        raise InvalidRequestError(
            "a chunk of a stream goes to the model speech, with a sequence id that is not 0; "
            "a recording has neither id nor flags"
        )
    request.check()
    return RecognitionOptions.parse(request.parameters)


def _warnings(recording: Recording, found: Sequence[Segment]) -> tuple[str, ...]:
    """Return the warnings of a recording, and one for each stretch of speech without a text."""
    left = [
        f"speech from {span.start:.1f} to {span.end:.1f} s{_on_channel(segment)} was not recognised"
        for segment in found
        for span in segment.unrecognised
    ]
    if len(left) > MAX_WARNINGS:
        others = len(left) - MAX_WARNINGS
        left[MAX_WARNINGS:] = [f"nor was speech in {others} other places: see the segments"]
    silent = () if left or any(segment.text for segment in found) else ("no speech was found",)
    return (*recording.warnings, *silent, *left)


def _on_channel(segment: Segment) -> str:
    return f" on channel {segment.channel}" if segment.channel else ""


def _transcript(
    found: Sequence[Segment],
    recording: Recording,
    calls: Calls,
    options: RecognitionOptions,
    warnings: tuple[str, ...] = (),
) -> Transcript:
    return transcript_of(
        found,
        options.nbest,
        duration=round(recording.duration, 3),
        path=calls.path,
        stages=calls.stages,
        channels=tuple(filter(None, recording.channels)),
        warnings=warnings,
    )
