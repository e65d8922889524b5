"""Requests of Triton as messages, and where another process takes them."""

import json
import os
from typing import Any

from conch.bls import relay
from conch.bls.service import Message, Responder
from conch.processes import stat_fields
from conch.triton.answers import Answers
from conch.triton.requests import sequence_flags
from conch.triton.responders import responder_of
from conch.triton.tracing import trace_of
from conch.wire.access import request_id_of
from conch.wire.errors import public_error


def start(
    request: Any, model: str, answers: Answers, begin: relay.Start, *, is_decoupled: bool
) -> None:
    """Start to answer a request of Triton, without waiting for it.

    Args:
        request: The request.
        model: Name of the model that was asked.
        answers: Threads that send answers.
        begin: Starts to answer a message.
        is_decoupled: Whether the model is decoupled.
    """
    responder: Responder = responder_of(request, answers, is_decoupled=is_decoupled)
    try:
        message = message_of(request, model, is_decoupled=is_decoupled)
    except Exception as error:
        responder.fail(public_error(error))
        responder.end()
    else:
        begin(message, responder)


def message_of(request: Any, model: str, *, is_decoupled: bool) -> Message:
    """Return a request of Triton as a message.

    Args:
        request: The request.
        model: Name of the model that was asked.
        is_decoupled: Whether the model is decoupled.
    """
    starts, ends = sequence_flags(request)
    return Message(
        model=model,
        read_inputs=lambda: {tensor.name(): tensor.as_numpy() for tensor in request.inputs()},
        outputs=tuple(request.requested_output_names()),
        parameters=json.loads(request.parameters() or "{}"),
        request_id=request_id_of(request.request_id()),
        stream_id=request.correlation_id(),
        starts=starts,
        ends=ends,
        is_decoupled=is_decoupled,
        trace=trace_of(request),
    )


def address_of(model: str) -> str:
    """Return the address at which a model of this server takes the requests of others."""
    server = os.getppid()
    return relay.address_of(server, stat_fields(str(server))[19], model)


def is_of_this_server(process: int, user: int) -> bool:
    """Return whether a process is one of a model of this server, and of this user."""
    try:
        return user == os.geteuid() and int(stat_fields(str(process))[1]) == os.getppid()
    except OSError:  # it has ended, or belongs to another container
        return False
