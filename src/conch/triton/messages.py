"""Requests of Triton as messages."""

import json
from collections.abc import Mapping
from typing import Any

from conch.bls.service import Message, Start
from conch.triton.requests import sequence_flags
from conch.triton.responders import Answers, TritonResponder
from conch.triton.tracing import trace_of
from conch.wire.access import request_id_of
from conch.wire.errors import public_error


class Requests:
    """Takes the requests of one BLS model of Triton, and sends their answers."""

    def __init__(self, args: Mapping[str, str], begin: Start) -> None:
        policy = json.loads(args["model_config"]).get("model_transaction_policy", {})
        self._model, self._is_decoupled = args["model_name"], bool(policy.get("decoupled"))
        self._answers, self._begin = Answers(), begin

    def start(self, request: Any) -> None:
        sender = request.get_response_sender()
        responder = TritonResponder(sender, self._answers, is_decoupled=self._is_decoupled)
        try:
            message = self._message_of(request)
        except Exception as error:
            responder.fail(public_error(error))
            responder.end()
        else:
            self._begin(message, responder)

    def close(self) -> None:
        """Send the answers that are left, and stop the threads."""
        self._answers.close()

    def _message_of(self, request: Any) -> Message:
        starts, ends = sequence_flags(request)
        return Message(
            model=self._model,
            read_inputs=lambda: {tensor.name(): tensor.as_numpy() for tensor in request.inputs()},
            outputs=tuple(request.requested_output_names()),
            parameters=json.loads(request.parameters() or "{}"),
            request_id=request_id_of(request.request_id()),
            stream_id=request.correlation_id(),
            starts=starts,
            ends=ends,
            is_decoupled=self._is_decoupled,
            trace=trace_of(request),
        )
