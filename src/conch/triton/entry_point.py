"""Answer the requests of a BLS model, each through its own response sender."""

import asyncio
import gc
import json
import logging
import os
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from conch.bls.access_log import Served
from conch.bls.hangs import HangWatch
from conch.bls.metrics import (
    AUDIO_IN_FLIGHT,
    COMPONENTS_AWAY,
    OPEN_STREAMS,
    PASS_STRETCH,
    Metrics,
)
from conch.component import Array
from conch.recognition.config import OrchestratorConfig
from conch.recognition.recognizer import OFFLINE, Recognizer
from conch.recognition.request import SpeechRequest
from conch.triton.answers import Answers
from conch.triton.components import TritonComponents
from conch.triton.lanes import Lanes
from conch.triton.logs import log_to_stderr
from conch.triton.memory import watch
from conch.triton.metrics import MetricsPublisher
from conch.triton.model_processes import ModelProcesses, boot_time_s
from conch.triton.requests import sequence_flags
from conch.triton.server_arguments import missing_arguments, parents_command
from conch.triton.statuses import triton_error
from conch.triton.tracing import RequestSpan, tracer_of_environment
from conch.wire import health
from conch.wire.access import request_id_of
from conch.wire.errors import OverloadedError, TranscriptionError, public_error
from conch.wire.needs import SERVED_VARIABLE
from conch.wire.result import Transcript

logger = logging.getLogger(__name__)

LEAST_SCORE = float(np.finfo(np.float32).min)
"""Score of a missing hypothesis, and in place of -inf and NaN, which JSON cannot hold."""

CLOSE_TIMEOUT_S = 5.0
"""Seconds to free ended streams in the components. The rest expires there by itself."""
FINISH_TIMEOUT_S = 10.0
"""Longest time for requests in flight to be cancelled, and for their calls to end, in seconds: more
than a component that hangs has to answer."""


class EntryPoint:
    """Answers the requests of a BLS model on one event loop.

    `execute` only starts a request. Its answer goes through its response sender, so that one
    instance has any number of requests in flight.
    """

    def __init__(self, config: OrchestratorConfig, model: str) -> None:
        """Start the event loop, and the threads in which component calls wait.

        Args:
            config: Limits.
            model: Label of the metrics, and name in the access log.
        """
        log_to_stderr()
        for lack in missing_arguments(parents_command(), os.environ, config.max_calls_in_flight):
            logger.warning("this tritonserver was started without %s", lack)
        self._model, self._tracer = model, tracer_of_environment()
        self._lanes = lanes = Lanes(config.max_calls_in_flight, config.max_passes_in_flight)
        self._answers = Answers()
        metrics = Metrics()
        processes = ModelProcesses(os.getppid())
        self._hangs = HangWatch(processes, config.min_hang_s, metrics, boot_time_s)
        detached = TritonComponents(None, None, self._hangs, lanes.passes, lanes.ends, lanes.post)
        served = filter(None, os.environ.get(SERVED_VARIABLE, "").split(","))
        self._recognizer = recognizer = Recognizer(config, detached, served, metrics)
        streams = self._recognizer.open_streams
        self._publisher = MetricsPublisher(
            model,
            metrics,
            {
                OPEN_STREAMS: lambda: len(streams),
                PASS_STRETCH: lambda: streams.stretch,
                AUDIO_IN_FLIGHT: lambda: recognizer.admission.audio_s,
                COMPONENTS_AWAY: lambda: len(recognizer.away),
            },
        )
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(lanes.audio)
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="event-loop", daemon=True
        )
        self._thread.start()
        self._hangs.start()

    def start(self, request: Any) -> None:
        """Start to answer a request with one response, without waiting for it."""
        self._run(self._answer(request, request.get_response_sender()))

    def start_stream(self, request: Any) -> None:
        """Start to answer a request of a decoupled model with one response per segment."""
        self._run(self._stream(request, request.get_response_sender()))

    def close(self) -> None:
        """Free ended streams, cancel what still runs, and stop all threads.

        Triton waits for the requests in flight before it calls this. A call that never ends is not
        waited for.
        """
        finished = asyncio.run_coroutine_threadsafe(self._finish(), self._loop)
        try:
            finished.result(FINISH_TIMEOUT_S)
        except TimeoutError:
            logger.error("requests in flight could not be ended")
        if not self._lanes.close(FINISH_TIMEOUT_S):
            logger.error("calls of components have not ended, and are left behind")
        self._hangs.close()
        self._answers.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._publisher.close()
        if self._tracer:
            self._tracer.close()
        # Tensors in the frames of tasks that failed: Triton's stub crashes where they outlive it.
        gc.collect()

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
        request_id = request_id_of(request.request_id())
        span = self._begin_span(request, request_id)
        components = TritonComponents(
            span, sender, self._hangs, pool, self._lanes.ends, self._lanes.post
        )
        send = self._answers.through(sender)
        # A live stream has one line, which is written at its end.
        served = None if request.correlation_id() else Served(request_id, self._model, OFFLINE)
        failure = None
        try:
            speech = _speech_request(request, request_id, self._model)
            if health.PARAMETER in speech.parameters:
                served = None
                response = _health_response(self._recognizer.away)
            else:
                if served:
                    served.rows = speech.num_rows
                transcripts = await self._recognizer.recognize(speech, components)
                if served:
                    served.made(transcripts)
                response = _speech_response(
                    transcripts,
                    request.requested_output_names(),
                    is_chunk=bool(request.correlation_id()),
                )
        except (Exception, asyncio.CancelledError) as error:
            failure = _public(error)
            response = _error_response(failure)
        components.close()
        send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        watch.called(num_ended=sequence_flags(request)[1])
        if served:
            served.log(failure)
        if span:
            span.end(failure)

    async def _stream(self, request: Any, sender: Any) -> None:
        request_id = request_id_of(request.request_id())
        span = self._begin_span(request, request_id)
        components = TritonComponents(
            span, sender, self._hangs, self._lanes.recordings, post=self._lanes.post
        )
        send = self._answers.through(sender)
        served = Served(request_id, self._model, OFFLINE)
        failure = None
        try:
            speech = _speech_request(request, request_id, self._model)
            served.rows = speech.num_rows
            wanted = request.requested_output_names()
            last: tuple[Transcript, ...] = ()
            async for item in self._recognizer.stream(speech, components):
                last = (item,)  # it tells of all before it
                send(_speech_response([item], wanted))
            served.made(last)
        except (Exception, asyncio.CancelledError) as error:
            failure = _public(error)
            send(_error_response(failure))
        finally:
            components.close()
            send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            watch.called()
            served.log(failure)
            if span:
                span.end(failure)

    def _begin_span(self, request: Any, request_id: str) -> RequestSpan | None:
        if self._tracer is None:
            return None
        names = {"triton.model_name": self._model, "triton.request_id": request_id}
        return self._tracer.begin(request, names)


def _log_failure(answer: "Future[None]") -> None:
    if not answer.cancelled() and (error := answer.exception()):
        logger.error("an answer could not be sent", exc_info=error)


def _public(error: Exception | asyncio.CancelledError) -> TranscriptionError:
    if isinstance(error, asyncio.CancelledError):  # only `close` cancels
        error = OverloadedError("the model is being unloaded; try again")
    return public_error(error)


def _error_response(error: TranscriptionError) -> Any:
    return pb_utils.InferenceResponse(error=triton_error(error))


def _health_response(away: Sequence[str]) -> Any:
    text = np.array([[health.to_json(away).encode()]], dtype=np.object_)
    return pb_utils.InferenceResponse([pb_utils.Tensor("RESULT", text)])


def _speech_request(request: Any, request_id: str, model: str) -> SpeechRequest:
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
        repeats_text="TRANSCRIPTS" in request.requested_output_names(),
        request_id=request_id,
        model=model,
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
