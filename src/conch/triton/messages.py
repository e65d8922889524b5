"""Requests of Triton as messages, and where another process takes them."""

import json
import os
from typing import Any

from conch.bls import relay
from conch.bls.service import Message
from conch.processes import stat_fields
from conch.triton.requests import sequence_flags
from conch.triton.tracing import trace_of
from conch.wire.access import request_id_of


def message_of(request: Any, model: str, *, takes_several: bool) -> Message:
    """Return a request of Triton as a message.

    Args:
        request: The request.
        model: Name of the model that was asked.
        takes_several: Whether the model is decoupled.
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
        takes_several=takes_several,
        trace=trace_of(request),
    )


def address_of(model: str) -> str:
    """Return the address at which a model of this server takes the requests of others."""
    server = os.getppid()
    return relay.address_of(server, stat_fields(str(server))[19], model)
