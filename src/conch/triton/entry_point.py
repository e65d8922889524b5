"""Answer the requests of a BLS model, each through its own response sender."""

import asyncio
import json
import logging
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from conch.component import Array
from conch.orchestrator import OrchestratorConfig, Recognizer, SpeechRequest
from conch.orchestrator.metrics import AUDIO_IN_FLIGHT, OPEN_STREAMS, PASS_STRETCH
from conch.triton.answers import Answers
from conch.triton.components import TritonComponents
from conch.triton.lanes import Lanes
from conch.triton.metrics import MetricsPublisher
from conch.triton.requests import sequence_flags
from conch.triton.statuses import triton_error
from conch.wire.errors import OverloadedError, public_error, to_wire
from conch.wire.result import Transcript

logger = logging.getLogger(__name__)

LEAST_SCORE = float(np.finfo(np.float32).min)
"""Score of a missing hypothesis, and in place of -inf and NaN, which JSON cannot hold."""

CLOSE_TIMEOUT_S = 5.0
"""Seconds to free ended streams in the components. The rest expires there by itself."""


class EntryPoint:
    """Answers the requests of a BLS model on one event loop.

    `execute` only starts a request. Its answer goes through its response sender, so that one
    instance has any number of requests in flight.
    """

    def __init__(self, config: OrchestratorConfig, model: str) -> None:
        """Start the event loop, and the threads in which component calls wait.

        Args:
            config: Limits.
            model: Label of the metrics.
        """
        self._lanes = lanes = Lanes(config.max_calls_in_flight, config.max_passes_in_flight)
        self._answers = Answers()
        detached = TritonComponents(None, None, lanes.passes, lanes.ends)
        self._recognizer = recognizer = Recognizer(config, detached)
        streams = self._recognizer.open_streams
        self._publisher = MetricsPublisher(
            model,
            recognizer.metrics,
            {
                OPEN_STREAMS: lambda: len(streams),
                PASS_STRETCH: lambda: streams.stretch,
                AUDIO_IN_FLIGHT: lambda: recognizer.admission.audio_s,
            },
        )
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(lanes.audio)
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="event-loop", daemon=True
        )
        self._thread.start()

    def start(self, request: Any) -> None:
        """Start to answer a request with one response, without waiting for it."""
        self._run(self._answer(request, request.get_response_sender()))

    def start_stream(self, request: Any) -> None:
        """Start to answer a request of a decoupled model with one response per segment."""
        self._run(self._stream(request, request.get_response_sender()))

    def close(self) -> None:
        """Free ended streams, cancel what still runs, and stop all threads.

        Triton waits for the requests in flight before it calls this.
        """
        asyncio.run_coroutine_threadsafe(self._finish(), self._loop).result()
        self._lanes.close()
        self._answers.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._publisher.close()

    async def _finish(self) -> None:
        await self._recognizer.open_streams.close(CLOSE_TIMEOUT_S)
        # Repeat, because a cancelled task may have started another.
        while running := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        await self._loop.shutdown_asyncgens()

    def _run(self, answer: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(answer, self._loop).add_done_callback(_log_failure)

    async def _answer(self, request: Any, sender: Any) -> None:
        pool = self._lanes.live if request.correlation_id() else self._lanes.recordings
        components = TritonComponents(request, sender, pool, self._lanes.ends)
        send = self._answers.through(sender)
        try:
            transcripts = await self._recognizer.recognize(_speech_request(request), components)
            response = _speech_response(
                transcripts,
                request.requested_output_names(),
                is_chunk=bool(request.correlation_id()),
            )
        except (Exception, asyncio.CancelledError) as error:
            response = _error_response(error, request.request_id())
        components.close()
        send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    async def _stream(self, request: Any, sender: Any) -> None:
        components = TritonComponents(request, sender, self._lanes.recordings)
        send = self._answers.through(sender)
        try:
            wanted = request.requested_output_names()
            async for item in self._recognizer.stream(_speech_request(request), components):
                send(_speech_response([item], wanted))
        except (Exception, asyncio.CancelledError) as error:
            send(_error_response(error, request.request_id()))
        finally:
            components.close()
            send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def _log_failure(answer: "Future[None]") -> None:
    if not answer.cancelled() and (error := answer.exception()):
        logger.error("an answer could not be sent", exc_info=error)


def _error_response(error: Exception | asyncio.CancelledError, request_id: str) -> Any:
    if isinstance(error, asyncio.CancelledError):  # only `close` cancels
        error = OverloadedError("the model is being unloaded; try again")
    error = public_error(error)
    if request_id:  # the client, or a gateway, can tell which request of its log this is
        logger.info("request %s: %s", request_id, to_wire(error))
    return pb_utils.InferenceResponse(error=triton_error(error))


def _speech_request(request: Any) -> SpeechRequest:
    inputs = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
    starts, ends = sequence_flags(request)
    return SpeechRequest(
        wav=inputs.get("WAV"),
        pcm16=inputs.get("PCM16"),
        wav_lens=inputs.get("WAV_LENS"),
        sample_rate=inputs.get("SAMPLE_RATE"),
        audio=inputs.get("AUDIO"),
        parameters=json.loads(request.parameters() or "{}"),
        stream_id=request.correlation_id(),
        starts=starts,
        ends=ends,
    )


def _speech_response(
    transcripts: Sequence[Transcript], wanted: Sequence[str], *, is_chunk: bool = False
) -> Any:
    """Return the response with the wanted tensors, for a live chunk without batch dimension."""
    outputs: dict[str, Array] = {}
    if "TRANSCRIPTS" in wanted or "SCORES" in wanted:
        outputs["TRANSCRIPTS"], outputs["SCORES"] = _columns(transcripts)
    if "RESULT" in wanted:
        results = [[transcript.to_json().encode()] for transcript in transcripts]
        outputs["RESULT"] = np.array(results, dtype=np.object_)
    # The streaming clients of WeNet, sherpa and FunASR decode TRANSCRIPTS[0] of a chunk, or join
    # TRANSCRIPTS, and fail if it has a batch dimension. Outputs of one answer are alike.
    return pb_utils.InferenceResponse(
        [
            pb_utils.Tensor(name, array[0] if is_chunk else array)
            for name, array in outputs.items()
            if name in wanted
        ]
    )


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
