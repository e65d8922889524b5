"""End the sequences that strangers begin with a component.

Triton's sequence batcher gives each START one of `max_candidate_sequences` places before the model
sees it, and keeps it for 90 s when the model answers with an error. Strangers could so keep all
live streams out. The component therefore ends such a sequence itself, by a call to its own model.
"""

import logging
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

logger = logging.getLogger(__name__)


class SequenceEnds:
    """Makes calls on a thread of its own, one after the other."""

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
            kind = type(error).__name__
            logger.error("the sequence of a refused request cannot be ended: %s", kind)
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
