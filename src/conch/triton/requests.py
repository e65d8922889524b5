"""Answer the requests of a component, and refuse those of strangers."""

import hmac
import json
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from conch.component import Array, ComponentModel, Outputs, Row, answers
from conch.triton.logs import log_to_stderr
from conch.triton.memory import watch
from conch.wire import entry_points
from conch.wire.errors import InvalidRequestError, public_error, to_wire

logger = logging.getLogger(__name__)


def respond(requests: Sequence[Any], component: ComponentModel) -> list[Any]:
    """Return the responses of a component to requests of Triton; a bad request fails alone."""
    log_to_stderr()  # once: a component has no other beginning that is the same for all
    read = [_read(request) for request in requests]
    rows = [row for item in read if not isinstance(item, Exception) for row in item]
    watch.called(num_ended=sum(row.ends for row in rows))
    given = iter(answers(component, rows) if rows else ())
    return [
        component_response(
            [item] if isinstance(item, Exception) else [next(given) for _ in item],
            request.requested_output_names(),
        )
        for request, item in zip(requests, read, strict=True)
    ]


def _read(request: Any) -> list[Row] | Exception:
    try:
        return rows_of(request)
    except Exception as error:
        return error


def rows_of(request: Any) -> list[Row]:
    """Return a request's rows; raise an InvalidRequestError for a caller without the key."""
    parameters = json.loads(request.parameters() or "{}")
    # First, so that a stranger's tensors go no further.
    try:
        _check_caller(parameters.pop(entry_points.COMPONENT_KEY, ""))
    except InvalidRequestError:
        if sequence_flags(request) == (True, False):
            sequence_ends.end(request, entry_points.own_key())
        raise
    inputs = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
    size = next(iter(inputs.values())).shape[0]
    starts, ends = sequence_flags(request)
    stream_id = request.correlation_id()
    return [
        Row({name: array[i] for name, array in inputs.items()}, parameters, stream_id, starts, ends)
        for i in range(size)
    ]


def _check_caller(sent: Any) -> None:
    key = entry_points.own_key().get(entry_points.COMPONENT_KEY, "")
    if key and not hmac.compare_digest(key.encode(), str(sent).encode()):
        raise InvalidRequestError(
            "components take calls of speech and speech_stream alone; for tests and benchmarks "
            "conch serve --open-components, or a tritonserver without the environment variable "
            f"{entry_points.COMPONENT_KEY_VARIABLE}, opens them to any client"
        )


def component_response(answers: Sequence[Outputs | Exception], wanted: Sequence[str]) -> Any:
    """Return the response with the answers to the rows of a request; an error is that of all."""
    tensors: dict[str, list[Array]] = {}
    for answer in answers:
        if isinstance(answer, Exception):
            return pb_utils.InferenceResponse(error=triton_error(answer))
        for name, array in answer.items():
            if name in wanted:
                tensors.setdefault(name, []).append(array)
    try:
        stacked = {name: np.stack(arrays) for name, arrays in tensors.items()}
    except ValueError:
        message = "the rows of this request have answers of different shapes; send them apart"
        return pb_utils.InferenceResponse(error=triton_error(InvalidRequestError(message)))
    return pb_utils.InferenceResponse([pb_utils.Tensor(*item) for item in stacked.items()])


def sequence_flags(request: Any) -> tuple[bool, bool]:
    """Return whether a request starts its sequence, and whether it ends it."""
    flags = request.flags()
    return (
        bool(flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START),
        bool(flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END),
    )


class SequenceEnds:
    """Ends the sequences that strangers begin with a component, on a thread of its own.

    Triton's sequence batcher gives each START one of `max_candidate_sequences` places before the
    model sees it, and keeps it for 90 s when the model answers with an error. Strangers could so
    keep all live streams out. So the component ends such a sequence by a call to its own model.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def end(self, request: Any, parameters: dict[str, Any]) -> None:
        """End the sequence that a request begins. Return at once, and raise nothing.

        The call has the request's tensors, one element of each dimension at most.
        """
        try:
            self._calls.put(_end_of(request, parameters).exec)
        except Exception as error:  # whose text has the parameters, and so the key
            error_type = type(error).__name__
            logger.error("the sequence of a refused request cannot be ended: %s", error_type)
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ends", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                # The answer is an error, as the component knows no such stream.
                self._calls.get()()
            except Exception:
                logger.exception("the sequence of a refused request could not be ended")


def _end_of(request: Any, parameters: dict[str, Any]) -> Any:
    return pb_utils.InferenceRequest(
        model_name=_own_model(),
        inputs=[_least(tensor) for tensor in request.inputs()],
        requested_output_names=list(request.requested_output_names()),
        parameters=parameters,
        correlation_id=request.correlation_id(),
        flags=pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END,
    )


def _least(tensor: Any) -> Any:
    array = tensor.as_numpy()
    return pb_utils.Tensor(tensor.name(), np.ascontiguousarray(array[(slice(1),) * array.ndim]))


def _own_model() -> str:
    """Return the name of this process's model, whose argument is MODEL/VERSION/model.py."""
    arguments = Path("/proc/self/cmdline").read_bytes().split(b"\0")
    return Path(arguments[1].decode()).parts[-3]


sequence_ends = SequenceEnds()


def triton_error(error: Exception) -> Any:
    """Return the `TritonError` that a client gets for an exception.

    Its text begins with a code, because several kinds of errors share a status, and a streamed
    answer has no status.
    """
    public = public_error(error)
    return pb_utils.TritonError(to_wire(public), getattr(pb_utils.TritonError, public.status))
