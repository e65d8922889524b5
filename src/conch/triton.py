"""The only module that knows `triton_python_backend_utils`: requests in, answers out, BLS calls.

Inside the server the python backend provides that module; it is never installed.
"""

import asyncio
import json
import logging
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from conch.component import Array, Component, Outputs, Row
from conch.errors import (
    ComponentError,
    DeadlineError,
    InvalidRequestError,
    OptionError,
    OverloadedError,
    RequestCancelledError,
    TranscriptionError,
)
from conch.orchestrator import OrchestratorConfig, Recognizer, SpeechRequest, Tensor
from conch.orchestrator.calls import Parameter, StreamPlace
from conch.parameters import read_parameters
from conch.result import Transcript

__all__ = ["EntryPoint", "read_parameters", "respond"]

logger = logging.getLogger(__name__)


def _error(error: Exception) -> Any:
    """Return an exception as the `TritonError` that a client sees."""
    code, message = _status(error)
    return pb_utils.TritonError(message, getattr(pb_utils.TritonError, code))


def _stream_error(error: Exception) -> Any:
    """Return an exception as the `TritonError` of a stream, which carries a text but no code."""
    code, message = _status(error)
    return pb_utils.TritonError(f"{code}: {message}", getattr(pb_utils.TritonError, code))


def _status(error: Exception) -> tuple[str, str]:
    """Return Triton's name for the kind of an error, and what to say about it."""
    codes = {
        InvalidRequestError: "INVALID_ARG",
        OverloadedError: "UNAVAILABLE",
        DeadlineError: "UNAVAILABLE",
        RequestCancelledError: "CANCELLED",
        TranscriptionError: "INTERNAL",
    }
    for kind, code in codes.items():
        if isinstance(error, kind):
            return code, str(error)
    logger.error("a request failed unexpectedly", exc_info=error)
    return "INTERNAL", f"internal error: {error!r}"


def _to_numpy(tensor: Any) -> Array:
    """Return a tensor's content on the host."""
    if tensor.is_cpu():
        array: Array = tensor.as_numpy()
        return array
    import torch.utils.dlpack  # only where a component answers from a GPU

    on_host: Array = torch.utils.dlpack.from_dlpack(tensor.to_dlpack()).cpu().numpy()
    return on_host


# Components -----------------------------------------------------------------------------------


def respond(requests: Sequence[Any], component: Component) -> list[Any]:
    """Answer a batch of requests with a component; a bad row fails its own request only."""
    rows_of = [_rows(request) for request in requests]
    answers = iter(_answers([row for rows in rows_of for row in rows], component))
    return [
        _component_response([next(answers) for _ in rows], request.requested_output_names())
        for request, rows in zip(requests, rows_of, strict=True)
    ]


def _rows(request: Any) -> list[Row]:
    inputs = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
    parameters = json.loads(request.parameters() or "{}")
    size = next(iter(inputs.values())).shape[0]
    starts, ends = _flags(request)
    stream_id = request.correlation_id()
    return [
        Row({name: array[i] for name, array in inputs.items()}, parameters, stream_id, starts, ends)
        for i in range(size)
    ]


def _flags(request: Any) -> tuple[bool, bool]:
    """Return whether a request starts its sequence, and whether it ends it."""
    flags = request.flags()
    return (
        bool(flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START),
        bool(flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END),
    )


def _answers(rows: list[Row], component: Component) -> Sequence[Outputs | Exception]:
    try:
        return component(rows)
    except Exception as error:
        if len(rows) == 1 or rows[0].stream_id:
            # A stream that has taken its chunk must not be given it again.
            return [error] * len(rows)
        # One row can make the whole batch raise; alone, it fails by itself.
        return [_answers([row], component)[0] for row in rows]


def _component_response(answers: Sequence[Outputs | Exception], wanted: Sequence[str]) -> Any:
    tensors: dict[str, list[Array]] = {}
    for answer in answers:
        if isinstance(answer, Exception):
            return pb_utils.InferenceResponse(error=_error(answer))
        for name, array in answer.items():
            if name in wanted:
                tensors.setdefault(name, []).append(array)
    try:
        stacked = {name: np.stack(arrays) for name, arrays in tensors.items()}
    except ValueError:
        message = "the rows of this request have answers of different shapes; send them apart"
        return pb_utils.InferenceResponse(error=_error(InvalidRequestError(message)))
    return pb_utils.InferenceResponse([pb_utils.Tensor(*item) for item in stacked.items()])


# Entry points ---------------------------------------------------------------------------------


class EntryPoint:
    """Answers requests of a BLS model, every request on its own, on one event loop.

    `execute` only hands a request over: it is answered through its response sender as its road
    goes on, so that one instance carries any number of requests at once.
    """

    def __init__(self, config: OrchestratorConfig) -> None:
        """Start the event loop, and the threads in which component calls wait."""
        calls = config.max_calls_in_flight
        self._pool = ThreadPoolExecutor(calls, thread_name_prefix="bls-call")
        # Live streams must not wait for a thread behind a long file's segments.
        self._live_pool = ThreadPoolExecutor(calls, thread_name_prefix="bls-live")
        self._recognizer = Recognizer(config, TritonComponents(None, None, self._pool))
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(self._pool)
        self._thread = threading.Thread(target=self._loop.run_forever, name="roads", daemon=True)
        self._thread.start()

    def start(self, request: Any) -> None:
        """Begin to answer a request with one response; returns at once."""
        self._run(self._answer(request, request.get_response_sender()))

    def start_stream(self, request: Any) -> None:
        """Begin to answer a request of a decoupled model, a response per segment."""
        self._run(self._stream(request, request.get_response_sender()))

    def close(self) -> None:
        """Stop the event loop; Triton has waited for the requests in flight."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        for pool in (self._pool, self._live_pool):
            pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, answer: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(answer, self._loop).add_done_callback(_log_failure)

    async def _answer(self, request: Any, sender: Any) -> None:
        pool = self._live_pool if request.correlation_id() else self._pool
        components = TritonComponents(request, sender, pool)
        try:
            transcripts = await self._recognizer.recognize(_speech_request(request), components)
            response = _speech_response(transcripts, request.requested_output_names())
        except Exception as error:
            response = pb_utils.InferenceResponse(error=_error(error))
        components.close()
        sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    async def _stream(self, request: Any, sender: Any) -> None:
        components = TritonComponents(request, sender, self._pool)
        try:
            wanted = request.requested_output_names()
            async for item in self._recognizer.stream(_speech_request(request), components):
                sender.send(_speech_response([item], wanted))
        except Exception as error:
            sender.send(pb_utils.InferenceResponse(error=_stream_error(error)))
        finally:
            components.close()
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def _log_failure(answer: "Future[None]") -> None:
    if error := answer.exception():
        logger.error("an answer could not be sent", exc_info=error)


def _speech_request(request: Any) -> SpeechRequest:
    inputs = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
    starts, ends = _flags(request)
    return SpeechRequest(
        wav=inputs.get("WAV"),
        wav_lens=inputs.get("WAV_LENS"),
        sample_rate=inputs.get("SAMPLE_RATE"),
        audio=inputs.get("AUDIO"),
        parameters=json.loads(request.parameters() or "{}"),
        stream_id=request.correlation_id(),
        starts=starts,
        ends=ends,
    )


def _speech_response(transcripts: Sequence[Transcript], wanted: Sequence[str]) -> Any:
    """Return the answer's tensors; rows with fewer hypotheses than others are filled up."""
    width = max(len(transcript.nbest) for transcript in transcripts)
    texts = np.full((len(transcripts), width), b"", dtype=np.object_)
    # The least number and not -inf, which JSON cannot hold.
    scores = np.full((len(transcripts), width), np.finfo(np.float32).min, dtype=np.float32)
    for row, transcript in enumerate(transcripts):
        for rank, hypothesis in enumerate(transcript.nbest):
            texts[row, rank] = hypothesis.text.encode()
            scores[row, rank] = hypothesis.score
    outputs = {"TRANSCRIPTS": texts, "SCORES": scores}
    if "RESULT" in wanted:
        results = [[transcript.to_json().encode()] for transcript in transcripts]
        outputs["RESULT"] = np.array(results, dtype=np.object_)
    return pb_utils.InferenceResponse(
        [pb_utils.Tensor(name, array) for name, array in outputs.items() if name in wanted]
    )


class TritonComponents:
    """The component models of this server, called in process on behalf of one request, or none."""

    def __init__(self, request: Any | None, sender: Any | None, pool: Executor) -> None:
        self._request = request
        self._pool = pool
        self._sender = sender
        self._is_open = True
        self._lock = threading.Lock()

    def close(self) -> None:
        """Make no further call: to be called before the request's last response is sent.

        A call whose road is over may still wait for its thread, and a sender that is asked
        something behind its last response crashes the server.
        """
        with self._lock:
            self._is_open = False

    async def call(
        self,
        model: str,
        inputs: Mapping[str, Array | Tensor],
        wanted: Sequence[str],
        parameters: Mapping[str, Parameter],
        timeout_s: float | None,
        place: StreamPlace | None,
    ) -> Mapping[str, Tensor]:
        """See `conch.orchestrator.Components.call`; the wait is done by a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._pool, self._call, model, inputs, wanted, parameters, timeout_s, place
        )

    def _call(
        self,
        model: str,
        inputs: Mapping[str, Array | Tensor],
        wanted: Sequence[str],
        parameters: Mapping[str, Parameter],
        timeout_s: float | None,
        place: StreamPlace | None,
    ) -> Mapping[str, Tensor]:
        with self._lock:
            if not self._is_open or (self._sender and self._sender.is_cancelled()):
                raise RequestCancelledError(f"the client cancelled before {model} was called")
        request = pb_utils.InferenceRequest(
            model_name=model,
            inputs=[_bls_input(name, value) for name, value in inputs.items()],
            requested_output_names=list(wanted),
            parameters=dict(parameters),
            timeout=int(timeout_s * 1e6) if timeout_s else 0,
            **({"trace": self._request.trace()} if self._request else {}),
            **(_sequence(place) if place else {}),
        )
        response = request.exec()
        if response.has_error():
            message = response.error().message()
            # What only the model can judge, as the languages it knows, is still the client's word.
            is_option = message.startswith("option '")
            raise OptionError(message) if is_option else ComponentError(f"{model}: {message}")
        return {tensor.name(): TritonTensor(tensor) for tensor in response.output_tensors()}


def _sequence(place: StreamPlace) -> dict[str, Any]:
    start = pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START if place.starts else 0
    end = pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END if place.ends else 0
    return {"correlation_id": place.stream_id, "flags": start | end}


class TritonTensor:
    """A component's output, which another component can take without a copy to the host."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def numpy(self) -> Array:
        """See `conch.orchestrator.Tensor.numpy`."""
        array: Array = _to_numpy(self.tensor)[0]
        return array


def _bls_input(name: str, value: Array | Tensor) -> Any:
    if isinstance(value, TritonTensor):
        if value.tensor.name() != name:
            raise ValueError(f"{value.tensor.name()} cannot be sent as {name}")
        return value.tensor
    return pb_utils.Tensor(name, np.ascontiguousarray(value)[np.newaxis])
