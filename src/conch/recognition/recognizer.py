"""Answer requests: check limits and options, and recognise every row."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import replace

from conch.audio.recording import Recording
from conch.bls.admission import Admission
from conch.bls.call import Components
from conch.bls.calls import Calls, together
from conch.bls.concurrency import RecordingTurns
from conch.bls.deadline import Deadline
from conch.bls.fair_order import Share
from conch.bls.metrics import REQUESTS
from conch.bls.runtime import Runtime
from conch.component.parameters import share_of_cores
from conch.recognition.config import RecognitionConfig
from conch.recognition.hooks import load_hooks
from conch.recognition.languages import with_only_language
from conch.recognition.live.open_streams import OpenStreams
from conch.recognition.metrics import AUDIO_SECONDS
from conch.recognition.offline.recording import recognize_channels
from conch.recognition.offline.whole_recording import WholeRecording
from conch.recognition.request import SpeechRequest, naming_row
from conch.recognition.text.steps import check_text_models
from conch.wire.errors import InvalidRequestError, OptionError
from conch.wire.options import RecognitionOptions
from conch.wire.parts import speech_warnings, spoken, transcript_of
from conch.wire.result import Segment, Transcript

OFFLINE = "offline"


class Recognizer:
    """Answers any number of requests at once on one event loop."""

    def __init__(
        self, config: RecognitionConfig, runtime: Runtime, cores: int | None = None
    ) -> None:
        """Start without requests.

        Args:
            cores: Cores of the components; None for those of this process.
        """
        self._config, self.runtime = config, runtime
        self._cores = cores or share_of_cores(1)
        load_hooks()
        self.open_streams = OpenStreams(config, runtime)

    async def recognize(self, request: SpeechRequest, components: Components) -> list[Transcript]:
        """Return one transcript per row, or the transcript after a live chunk.

        Args:
            request: The request. Its rows are recognised at the same time.

        Raises:
            TranscriptionError: the request or one of its components failed; see
                `conch.wire.errors`.
        """
        if request.stream_id:
            return [await self.open_streams.recognize(request, components)]
        with self._arrived(request):
            options = _options(request)
            turns = [self._turns() for _ in range(request.num_rows)]
            deadline = Deadline(options.deadline_ms, started=request.arrived)
            calls = [self._calls(components, turn, deadline) for turn in turns]

            async def transcribe(row: int, work: "_Work") -> Transcript:
                with naming_row(row, len(rows)):
                    found, whole = list[Segment](), WholeRecording(options)
                    async with aclosing(
                        self._segments(rows[row], calls[row], options, whole)
                    ) as segments:
                        async for segment in segments:
                            found.append(segment)
                            work.heard(row, segment)
                    after = await whole.finished(found, calls[row])
                self._count_audio(rows[row])
                warnings = (*rows[row].warnings, *speech_warnings(after.segments))
                transcript = _transcript(after.segments, rows[row], calls[row], options, warnings)
                return replace(transcript, extra=after.extra or None)

            async with calls[0].limited():
                await check_text_models(options, calls[0])
                rows = await self._opened(request, options)
                async with self._begun(rows, calls[0], turns) as work:
                    return await together(transcribe(row, work) for row in range(len(rows)))

    async def stream(
        self, request: SpeechRequest, components: Components
    ) -> AsyncGenerator[Transcript, None]:
        """Yield a transcript per segment of a request with one row, each as soon as it is ready.

        The last transcript has no segment. It carries the duration, the path and the timings of the
        whole audio, which are not known with the last segment, and what the hooks over the whole
        recording have found.

        Raises:
            TranscriptionError: as `recognize`; the answer ends there.
        """
        with self._arrived(request):
            options = _options(request)
            turn = self._turns()
            deadline = Deadline(options.deadline_ms, started=request.arrived)
            calls = self._calls(components, turn, deadline)
            async with calls.limited():
                await check_text_models(options, calls)
                (row,) = await self._opened(request, options)
                async with self._begun([row], calls, [turn]) as work:
                    found, whole = list[Segment](), WholeRecording(options)
                    async with aclosing(self._streamed(row, calls, options, whole)) as segments:
                        async for segment in segments:
                            work.heard(0, segment)
                            found.append(segment)
                            if segment.text or segment.unrecognised:
                                yield _transcript([segment], row, calls, options)
                    after = await whole.finished(found, calls)
                    self._count_audio(row)
                    warnings = (*row.warnings, *speech_warnings(after.segments))
                    last = _transcript([], row, calls, options, warnings)
                    revised = () if [*after.segments] == found else spoken(after.segments)
                    yield replace(last, extra=after.extra or None, revised=revised)

    @contextmanager
    def _arrived(self, request: SpeechRequest) -> Iterator[None]:
        with (
            self.runtime.metrics.answering(REQUESTS, OFFLINE),
            self.runtime.admission.arrived(request.num_bytes),
        ):
            yield

    @asynccontextmanager
    async def _begun(
        self, rows: Sequence[Recording], calls: Calls, turns: Sequence[RecordingTurns]
    ) -> AsyncIterator["_Work"]:
        """Wait for room for the rows of a request, and give its calls their place."""
        audio_s = sum(row.length_s * len(row.channels) for row in rows)
        left_s = calls.deadline.remaining_s("before the first call")
        admission = self.runtime.admission
        async with admission.begun(audio_s, left_s) as share:
            for turn in turns:
                turn.begin(share.key, lambda: admission.is_first(share))
            yield _Work(rows, admission, share)

    def _turns(self) -> RecordingTurns:
        return RecordingTurns(self.runtime.limits)

    def _calls(self, components: Components, turns: RecordingTurns, deadline: Deadline) -> Calls:
        return self.runtime.calls(components, OFFLINE, deadline, turns)

    async def _opened(self, request: SpeechRequest, options: RecognitionOptions) -> list[Recording]:
        if request.audio is None:
            return request.rows(options, self._config.max_audio_s)
        # In a thread: some files are decoded in part, to find samples or compare channels.
        return await asyncio.to_thread(request.rows, options, self._config.max_audio_s)

    def _streamed(
        self,
        recording: Recording,
        calls: Calls,
        options: RecognitionOptions,
        whole: WholeRecording,
    ) -> AsyncGenerator[Segment, None]:
        """Return the segments; the first one does not share the cores with more than fill them."""
        encoded = self.runtime.limits.most_of_one("attention_encoder", is_first=True)
        return self._segments(recording, calls, options, whole, max(encoded, self._cores))

    async def _segments(
        self,
        recording: Recording,
        calls: Calls,
        options: RecognitionOptions,
        whole: WholeRecording,
        most_at_first: int | None = None,
    ) -> AsyncGenerator[Segment, None]:
        most = self._config.max_segments_in_flight
        at_first = min(most, most_at_first or most)
        found = recognize_channels(recording, options, calls, most, at_first, whole)
        async with aclosing(found) as segments:
            async for segment in segments:
                yield with_only_language(segment, options, self._config)

    def _count_audio(self, recording: Recording) -> None:
        self.runtime.metrics.add(AUDIO_SECONDS, recording.duration, mode=OFFLINE)


class _Work:
    """What is recognised of the rows of a request."""

    def __init__(self, rows: Sequence[Recording], admission: Admission, share: Share) -> None:
        self._rows, self._admission, self._share = rows, admission, share
        self._done_s = [0.0] * len(rows)

    def heard(self, row: int, segment: Segment) -> None:
        """Note that a row is recognised up to the end of a segment, in all of its channels."""
        self._done_s[row] = segment.end * len(self._rows[row].channels)
        self._admission.served(self._share, sum(self._done_s))


def _options(request: SpeechRequest) -> RecognitionOptions:
    if request.stream_id or request.starts or request.ends:
        raise InvalidRequestError(
            "a chunk of a stream goes to the model speech, with a sequence id that is not 0; "
            "a recording has neither id nor flags"
        )
    request.check()
    options = RecognitionOptions.parse(request.parameters)
    if options.vad_state and request.num_rows > 1:
        raise OptionError(
            f"option 'vad_state' is for a piece of one recording; sent: {request.num_rows} rows"
        )
    return options


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
