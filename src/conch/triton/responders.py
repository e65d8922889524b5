"""Give the answers of a request through Triton's response sender."""

import threading
from typing import Any

import triton_python_backend_utils as pb_utils

from conch.bls.service import Answer, Responder
from conch.triton.answers import Answers
from conch.triton.statuses import triton_error
from conch.wire.errors import TranscriptionError


class SingleResponder:
    """Gives the one answer of a request to a model that is not decoupled.

    The answer leaves with `end`: Triton takes the last response of a request with its last flag,
    and calls of components through the sender must be over by then.
    """

    def __init__(self, sender: Any, answers: Answers) -> None:
        """Prepare an answer.

        Args:
            sender: Response sender of the request.
            answers: Threads that send.
        """
        self._sender, self._send = sender, answers.through(sender)
        self._response: tuple[Any, ...] = ()
        self._lock = threading.Lock()
        self._has_ended = False

    def is_cancelled(self) -> bool:
        """Return whether the client has given up; an HTTP client that goes away is not noticed."""
        with self._lock:
            # Triton ends the whole server if a sender is used after its last response.
            return not self._has_ended and bool(self._sender.is_cancelled())

    def send(self, answer: Answer) -> None:
        """Give an answer."""
        self._give(pb_utils.InferenceResponse([pb_utils.Tensor(*item) for item in answer.items()]))

    def fail(self, error: TranscriptionError) -> None:
        """Give an error in place of an answer."""
        self._give(pb_utils.InferenceResponse(error=triton_error(error)))

    def end(self) -> None:
        """Send the last response."""
        with self._lock:
            self._has_ended = True
        self._send(*self._response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _give(self, response: Any) -> None:
        self._response = (response,)


class SeveralResponder(SingleResponder):
    """Gives the answers of a request to a decoupled model, each at once."""

    def _give(self, response: Any) -> None:
        self._send(response)


def responder_of(request: Any, answers: Answers, *, is_decoupled: bool) -> Responder:
    """Return what answers a request.

    Args:
        request: The request of Triton.
        answers: Threads that send.
        is_decoupled: Whether its model is decoupled.
    """
    kind = SeveralResponder if is_decoupled else SingleResponder
    return kind(request.get_response_sender(), answers)
