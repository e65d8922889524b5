"""The requests of one BLS model of Triton: read as messages, and answered from threads."""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any

import triton_python_backend_utils as pb_utils

from conch.bls.service import Answer, Message, Start
from conch.triton.requests import sequence_flags, triton_error
from conch.triton.tracing import trace_of
from conch.wire.access import request_id_of
from conch.wire.errors import TranscriptionError, public_error

logger = logging.getLogger(__name__)

THREADS = 4
SLOW_S = 0.05
"""Time to hand over an answer that is long: it took a thread of Triton's pool that was not free."""


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


class Answers:
    """Hands answers to Triton, which may take a while: each waits for a thread of Triton's pool.

    The answers of one request go through one thread, so they keep their order.
    """

    def __init__(self) -> None:
        self._threads = [
            ThreadPoolExecutor(1, thread_name_prefix=f"answers-{number}")
            for number in range(THREADS)
        ]
        self._numbers = count()
        self._has_warned = threading.Event()

    def through(self, sender: Any) -> Callable[..., None]:
        """Return a function that sends through a response sender later, without waiting for it."""
        thread = self._threads[next(self._numbers) % THREADS]

        def send(*response: Any, **flags: int) -> None:
            thread.submit(self._send, sender, response, flags).add_done_callback(_log_failure)

        return send

    def close(self) -> None:
        for thread in self._threads:
            thread.shutdown()

    def _send(self, sender: Any, response: tuple[Any, ...], flags: dict[str, int]) -> None:
        began = time.monotonic()
        sender.send(*response, **flags)
        took_s = time.monotonic() - began
        if took_s > SLOW_S and not self._has_warned.is_set():
            self._has_warned.set()  # once: it says the same each time
            logger.warning(
                "an answer took %.0f ms to be handed to Triton. If this machine is not overloaded, "
                "Triton has too few threads: --backend-config=python,thread-pool-size=N, with N "
                "above the parameter max_calls_in_flight of this model",
                1000 * took_s,
            )


class TritonResponder:
    """Gives the answers of a request; see `conch.bls.service.Responder`.

    A decoupled model sends each at once. The answer of any other model leaves with `end`. Triton
    takes the last response of a request with its last flag, and by then the sender's calls of
    components must be over.
    """

    def __init__(self, sender: Any, answers: Answers, *, is_decoupled: bool) -> None:
        self._sender, self._send = sender, answers.through(sender)
        self._is_decoupled = is_decoupled
        self._response: tuple[Any, ...] = ()
        self._lock = threading.Lock()
        self._has_ended = False

    def is_cancelled(self) -> bool:
        """Return whether the client has given up; an HTTP client that goes away is not noticed."""
        with self._lock:
            # Triton ends the whole server if a sender is used after its last response.
            return not self._has_ended and bool(self._sender.is_cancelled())

    def send(self, answer: Answer) -> None:
        self._give(pb_utils.InferenceResponse([pb_utils.Tensor(*item) for item in answer.items()]))

    def fail(self, error: TranscriptionError) -> None:
        self._give(pb_utils.InferenceResponse(error=triton_error(error)))

    def end(self) -> None:
        with self._lock:
            self._has_ended = True
        self._send(*self._response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _give(self, response: Any) -> None:
        if self._is_decoupled:
            self._send(response)
        else:
            self._response = (response,)


def _log_failure(sent: "Future[None]") -> None:
    if error := sent.exception():
        logger.error("an answer could not be sent", exc_info=error)
