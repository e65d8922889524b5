"""Speech recognition as a service of a BLS model: tensors in, tensors out."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

import numpy as np

from conch.audio.intake import prepare
from conch.bls.call import Components
from conch.bls.metrics import Metric
from conch.bls.runtime import Runtime
from conch.bls.service import AccessRecord, Answer, Message
from conch.component import Array
from conch.recognition.config import RecognitionConfig
from conch.recognition.metrics import OPEN_STREAMS, PASS_STRETCH
from conch.recognition.recognizer import OFFLINE, Recognizer
from conch.recognition.request import RecognitionRequest
from conch.wire.result import Transcript

LEAST_SCORE = float(np.finfo(np.float32).min)
"""Score of a missing hypothesis, and in place of -inf and NaN, which JSON cannot hold."""


class Recognition:
    def __init__(self, config: RecognitionConfig, runtime: Runtime) -> None:
        self._recognizer = Recognizer(config, runtime)
        self._runtime = runtime
        prepare()  # the first file need not wait for it

    @property
    def gauges(self) -> Mapping[Metric, Callable[[], float]]:
        streams = self._recognizer.open_streams
        return {
            **self._runtime.gauges,
            OPEN_STREAMS: lambda: len(streams),
            PASS_STRETCH: lambda: streams.stretch,
        }

    def parse(self, message: Message) -> RecognitionRequest:
        """Read a request; its options and audio are checked when it runs."""
        fields = {name.lower(): tensor for name, tensor in message.read_inputs().items()}
        return RecognitionRequest(**(fields | message.header_fields()))

    async def run(
        self, request: RecognitionRequest, components: Components, record: AccessRecord
    ) -> AsyncGenerator[Answer, None]:
        """Yield one answer; if the request is decoupled, one per segment and a last one."""
        if request.stream_id and not request.is_decoupled:
            record.leave_out()  # a live stream has one line, which is written at its end
            transcripts = await self._recognizer.recognize(request, components)
            yield {name: rows[0] for name, rows in _tensors(transcripts, request.outputs).items()}
            return
        record.mode, record.fields["rows"] = OFFLINE, request.num_rows
        if not request.is_decoupled:
            transcripts = await self._recognizer.recognize(request, components)
            _note(record, transcripts)
            yield _tensors(transcripts, request.outputs)
            return
        last: tuple[Transcript, ...] = ()
        async with aclosing(self._recognizer.stream(request, components)) as answers:
            async for transcript in answers:
                last = (transcript,)  # it counts the calls for all before it
                yield _tensors(last, request.outputs)
        _note(record, last)

    async def close(self, timeout_s: float) -> None:
        await self._recognizer.open_streams.close(timeout_s)


def _note(record: AccessRecord, transcripts: Sequence[Transcript]) -> None:
    for transcript in transcripts:
        record.audio_s += transcript.duration
        record.called(transcript.stages)


def _tensors(transcripts: Sequence[Transcript], wanted: Sequence[str]) -> dict[str, Array]:
    """Return the wanted tensors, with a row for each transcript.

    The answer to a live chunk has no batch dimension: the streaming clients of WeNet, sherpa and
    FunASR decode TRANSCRIPTS[0] of a chunk, or join TRANSCRIPTS.
    """
    tensors: dict[str, Array] = {}
    if "TRANSCRIPTS" in wanted or "SCORES" in wanted:
        tensors["TRANSCRIPTS"], tensors["SCORES"] = _columns(transcripts)
    if "RESULT" in wanted:
        results = [[transcript.to_json().encode()] for transcript in transcripts]
        tensors["RESULT"] = np.array(results, dtype=np.object_)
    return {name: tensor for name, tensor in tensors.items() if name in wanted}


def _columns(transcripts: Sequence[Transcript]) -> tuple[Array, Array]:
    """Return texts BYTES and scores FP32, both [rows, n-best] and padded to the longest list."""
    width = max(len(transcript.nbest) for transcript in transcripts)
    texts = np.full((len(transcripts), width), b"", dtype=np.object_)
    scores = np.full((len(transcripts), width), LEAST_SCORE, dtype=np.float32)
    for row, transcript in enumerate(transcripts):
        for rank, hypothesis in enumerate(transcript.nbest):
            texts[row, rank] = hypothesis.text.encode()
            scores[row, rank] = hypothesis.score
    return texts, np.nan_to_num(scores, copy=False, nan=LEAST_SCORE)
