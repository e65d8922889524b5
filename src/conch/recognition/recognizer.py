"""Answer requests: check limits and options, and recognise every row."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

from conch.audio.recording import Recording
from conch.bls.call import BEFORE_CALLS, Components, Deadline
from conch.bls.calls import Calls, together
from conch.bls.concurrency import RecordingTurns
from conch.bls.metrics import REQUESTS
from conch.bls.runtime import Runtime
from conch.component.parameters import share_of_cores
from conch.recognition.config import RecognitionConfig
from conch.recognition.hooks import (
    decoder_of,
    load_hooks,
    needs_words,
    prepared,
    prepared_s,
    served,
)
from conch.recognition.languages import language_warnings, with_only_language
from conch.recognition.live.open_streams import OpenStreams
from conch.recognition.metrics import AUDIO_SECONDS
from conch.recognition.offline.recording import WholeRecording, recognize_channels
from conch.recognition.request import RecognitionRequest, naming_row
from conch.recognition.text.steps import check_text_models
from conch.wire.errors import InvalidRequestError, OptionError
from conch.wire.named_models import with_its_decoder
from conch.wire.needs import components_of
from conch.wire.options import RecognitionOptions
from conch.wire.parts import speech_warnings, spoken, transcript_of, with_turns
from conch.wire.result import Segment, Transcript, Turn
from conch.wire.turns import other_turns

OFFLINE = "offline"


class Recognizer:
    """Answers any number of requests at once on one event loop."""

    def __init__(
        self,
        config: RecognitionConfig,
        runtime: Runtime,
        cores: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`cores` are those of the components, by default this process's."""
        if (
            runtime.decoder
            and config.first_pass_language == RecognitionConfig().first_pass_language
        ):
            # The language of chosen weights is unknown.
            config = replace(config, first_pass_language="")
        self._config, self.runtime = config, runtime
        self._cores = cores or share_of_cores(1)
        load_hooks()
        self.open_streams = OpenStreams(config, runtime, clock)

    async def recognize(
        self, request: RecognitionRequest, components: Components
    ) -> list[Transcript]:
        """Return one transcript per row, or the transcript after a live chunk.

        The rows are recognised at the same time. A failure is a `TranscriptionError`; see
        `conch.wire.errors`.
        """
        if request.stream_id:
            return [await self.open_streams.recognize(request, components)]

        async def transcribe(row: _RecordingRow) -> Transcript:
            with naming_row(row.number, request.num_rows):
                async with aclosing(row.segments()) as segments:
                    async for _ in segments:
                        pass
                return await row.finished()

        async with self._begun(request, components) as rows:
            return await together(map(transcribe, rows))

    async def stream(
        self, request: RecognitionRequest, components: Components
    ) -> AsyncGenerator[Transcript, None]:
        """Yield a transcript per segment of a request with one row, each as soon as it is ready.

        The last transcript has no segment. It has the duration, the path and the timings of the
        whole audio, and what the hooks over the whole recording have found.
        """
        async with self._begun(request, components) as (row,):
            # The first segment does not share the cores with more than fill them.
            at_first = [
                self.runtime.limits.most_of_one(encoder, is_first=True)
                for encoder in decoder_of(row.options).components[:1]
            ]
            parts = row.segments(max(self._cores, *at_first), in_parts=True)
            async with aclosing(parts) as segments:
                async for segment in segments:
                    if segment.text or segment.unrecognised:
                        yield row.part(segment)
            yield await row.finished(is_streamed=True)

    @asynccontextmanager
    async def _begun(
        self, request: RecognitionRequest, components: Components
    ) -> AsyncIterator[list["_RecordingRow"]]:
        """Check a request, open its audio, and wait for room for its rows."""
        runtime, admission = self.runtime, self.runtime.admission
        with runtime.metrics.answering(REQUESTS, OFFLINE), admission.arrived(request.num_bytes):
            options, others = _choices(request, runtime)
            deadline = Deadline(options.deadline_ms, started=request.arrived)
            turns = [RecordingTurns(runtime.limits) for _ in range(request.num_rows)]
            calls = [
                runtime.calls(components, OFFLINE, deadline, turn, options.model) for turn in turns
            ]
            async with calls[0].limited():
                options = await served(options, others, calls[0])
                del others  # it holds voices that were read
                await calls[0].need(components_of(options))
                await check_text_models(options, calls[0])
                recordings = await self._opened(request, options)
                audio_s = sum(item.length_s * len(item.channels) for item in recordings)
                audio_s += await asyncio.to_thread(prepared_s, options)
                left_s = deadline.remaining_s(BEFORE_CALLS)
                async with admission.begun(audio_s, left_s) as share:
                    for turn in turns:
                        turn.begin(share.key, lambda: admission.is_first(share))
                    options = await prepared(options, calls[0])
                    rows = [
                        _RecordingRow(number, *item, options, self._config)
                        for number, item in enumerate(zip(recordings, calls, strict=True))
                    ]
                    for row in rows:
                        row.on_progress = lambda: admission.served(
                            share, sum(r.done_s for r in rows)
                        )
                    yield rows

    async def _opened(
        self, request: RecognitionRequest, options: RecognitionOptions
    ) -> list[Recording]:
        if request.audio is None:
            return request.rows(options, self._config.max_audio_s)
        # In a thread: some files are decoded in part, to find samples or compare channels.
        return await asyncio.to_thread(request.rows, options, self._config.max_audio_s)


class _RecordingRow:
    def __init__(
        self,
        number: int,
        recording: Recording,
        calls: Calls,
        options: RecognitionOptions,
        config: RecognitionConfig,
    ) -> None:
        self.number, self.options = number, options
        self._recording, self._calls, self._config = recording, calls, config
        self._segments: list[Segment] = []
        self._turns: list[Turn] = []
        """Turns not sent yet."""
        self._sent_turns: list[Turn] = []
        self._whole = WholeRecording(options, calls)
        self.done_s = 0.0
        """Seconds of audio that are recognised, over all channels."""
        self.on_progress: Callable[[], None] = lambda: None

    async def segments(
        self, most_at_first: int | None = None, *, in_parts: bool = False
    ) -> AsyncGenerator[Segment, None]:
        most = self._config.max_segments_in_flight
        at_first = min(most, most_at_first or most)
        recognised = recognize_channels(
            self._recording, self.options, self._calls, most, at_first, self._whole
        )
        async with aclosing(recognised) as segments:
            async for item in segments:
                segment = with_only_language(item, self.options, self._config)
                if in_parts:
                    segment, turns = await self._whole.part(segment)
                    self._turns += turns
                self._segments.append(segment)
                self.done_s = segment.end * len(self._recording.channels)
                self.on_progress()
                yield segment

    def part(self, segment: Segment) -> Transcript:
        turns, self._turns = self._turns, []
        self._sent_turns += turns
        return with_turns(self.transcript([segment]), turns)

    async def finished(self, *, is_streamed: bool = False) -> Transcript:
        """Return the transcript of all segments; if they were answers, of what else is known."""
        after = await self._whole.finished(self._segments)
        self._calls.count(AUDIO_SECONDS, self._recording.duration, mode=OFFLINE)
        is_textless = not decoder_of(self.options).components
        is_revised = is_streamed and [*after.segments] != self._segments
        return replace(
            with_turns(
                self.transcript([] if is_streamed else after.segments),
                after.turns,
                after.embeddings,
            ),
            warnings=(
                *self._recording.warnings,
                *speech_warnings(after.segments, is_silent=not (is_textless and after.turns)),
                *language_warnings(after.segments, self.options),
            ),
            extra=after.extra or None,
            relabelled=tuple(other_turns(self._sent_turns, after.turns)) if is_streamed else (),
            revised=spoken(after.segments) if is_revised else (),
        )

    def transcript(self, segments: Sequence[Segment]) -> Transcript:
        return transcript_of(
            segments,
            self.options.nbest,
            duration=round(self._recording.duration, 3),
            path=self._calls.path,
            stages=self._calls.stages,
            channels=tuple(filter(None, self._recording.channels)),
            warnings=(),
        )


def _choices(
    request: RecognitionRequest, runtime: Runtime
) -> tuple[RecognitionOptions, Iterator[RecognitionOptions] | None]:
    """Check a request, and return `RecognitionOptions.choices` with all that they need."""
    if request.stream_id or request.starts or request.ends:
        raise InvalidRequestError(
            "a chunk of a stream goes to the model speech, with a sequence id that is not 0; "
            "a recording has neither id nor flags"
        )
    request.check()
    parameters = with_its_decoder(request.parameters, runtime.named, runtime.decoder)
    options, others = RecognitionOptions.choices(parameters)
    if options.vad_state and request.num_rows > 1:
        raise OptionError(
            f"option 'vad_state' is for a piece of one recording; sent: {request.num_rows} rows"
        )
    return _with_words(options), others and map(_with_words, others)


def _with_words(options: RecognitionOptions) -> RecognitionOptions:
    return replace(options, word_timestamps=True) if needs_words(options) else options
