"""Requests of a component: rows in, answers out; and what every request says about its sequence."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

from conch.component import Array, Component, Outputs, Row
from conch.triton.statuses import triton_error
from conch.wire.errors import InvalidRequestError


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
    starts, ends = sequence_flags(request)
    stream_id = request.correlation_id()
    return [
        Row({name: array[i] for name, array in inputs.items()}, parameters, stream_id, starts, ends)
        for i in range(size)
    ]


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
