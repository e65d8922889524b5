"""Answer the requests of a component, and read the sequence flags of requests."""

import hmac
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from conch.component import Array, ComponentModel, Outputs, Row, answers
from conch.triton.logs import log_to_stderr
from conch.triton.memory import watch
from conch.triton.refused import sequence_ends
from conch.triton.statuses import triton_error
from conch.wire import component_calls
from conch.wire.errors import InvalidRequestError


def respond(requests: Sequence[Any], component: ComponentModel) -> list[Any]:
    """Return the responses of a component to requests of Triton; a bad request fails alone."""
    log_to_stderr()  # once: a component has no other beginning that is the same for all
    read = [_read(request) for request in requests]
    rows = [row for found in read if not isinstance(found, Exception) for row in found]
    watch.called(num_ended=sum(row.ends for row in rows))
    given = iter(answers(component, rows) if rows else ())
    return [
        component_response(
            [found] if isinstance(found, Exception) else [next(given) for _ in found],
            request.requested_output_names(),
        )
        for request, found in zip(requests, read, strict=True)
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
        _check_caller(parameters.pop(component_calls.KEY, ""))
    except InvalidRequestError:
        if sequence_flags(request) == (True, False):
            sequence_ends.end(request, component_calls.own_key())
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
    """Check that a call has the key of this server, if it has one."""
    key = component_calls.own_key().get(component_calls.KEY, "")
    if key and not hmac.compare_digest(key.encode(), str(sent).encode()):
        raise InvalidRequestError(
            "components take calls of speech and speech_stream alone; for tests and benchmarks "
            "conch serve --open-components, or a tritonserver without the environment variable "
            f"{component_calls.KEY_VARIABLE}, opens them to any client"
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
