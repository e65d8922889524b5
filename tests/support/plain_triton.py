"""Triton in plain Python, as far as `conch.triton` uses it, for tests without a server.

It is deliberately not named `triton_python_backend_utils`: a module of that name that a server
could import would take the place of the real one there. `tests/triton/conftest.py` gives it that
name, in the tests' own process only.
"""

import json
import queue
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1


class TritonError:
    INVALID_ARG, UNAVAILABLE, CANCELLED, INTERNAL = (
        "invalid",
        "unavailable",
        "cancelled",
        "internal",
    )

    def __init__(self, message: str, code: str = INTERNAL) -> None:
        self._message, self._code = message, code

    def message(self) -> str:
        return self._message

    def code(self) -> str:
        return self._code


class Tensor:
    def __init__(self, name: str, array: NDArray[Any]) -> None:
        self._name, self._array = name, array

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> NDArray[Any]:
        return self._array

    def is_cpu(self) -> bool:
        return True


class UnreadableTensor(Tensor):
    """A tensor as on a GPU, without content on the host."""

    def as_numpy(self) -> NDArray[Any]:
        raise RuntimeError(f"{self.name()} is not in the memory of the host")


class InferenceResponse:
    def __init__(self, tensors: Sequence[Tensor] = (), error: TritonError | None = None) -> None:
        self._tensors, self._error = list(tensors), error

    def output_tensors(self) -> list[Tensor]:
        return self._tensors

    def has_error(self) -> bool:
        return self._error is not None

    def error(self) -> TritonError | None:
        return self._error

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {tensor.name(): tensor.as_numpy() for tensor in self._tensors}


class InferenceRequest:
    """A call of a component: `models` answers it."""

    def __init__(self, **arguments: Any) -> None:
        self.model = arguments["model_name"]
        self.inputs = {tensor.name(): tensor.as_numpy() for tensor in arguments["inputs"]}
        self.wanted = arguments["requested_output_names"]
        self.parameters = arguments["parameters"]
        self.stream_id = arguments.get("correlation_id", 0)
        self.flags = arguments.get("flags", 0)

    def exec(self) -> InferenceResponse:
        if is_going:
            text = f"Model {self.model} - Error when running inference: Server not ready"
            return InferenceResponse(error=TritonError(text))
        if self.model not in models:
            return InferenceResponse(error=TritonError(f"Model '{self.model}' is not ready."))
        if not self.inputs:
            return InferenceResponse(error=TritonError("expected 1 inputs but got 0 inputs"))
        return models[self.model](self)


models: dict[str, Callable[[InferenceRequest], InferenceResponse]] = {}
"""The component models that are loaded, by name."""


is_going = False
"""Whether the server is shutting down."""


class MetricFamily:
    COUNTER, GAUGE = "counter", "gauge"

    def __init__(self, name: str, description: str, kind: str) -> None:
        self.name = name

    def Metric(self, labels: Mapping[str, str]) -> "Metric":
        return Metric()


class Metric:
    def increment(self, value: float) -> None:
        pass

    def set(self, value: float) -> None:
        pass


class ResponseSender:
    """A sender that keeps everything sent, in order."""

    def __init__(self) -> None:
        self.sent: queue.SimpleQueue[InferenceResponse | None] = queue.SimpleQueue()
        self.is_final = False

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        assert not self.is_final, "nothing is sent behind the last response"
        self.is_final = bool(flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        self.sent.put(response)

    def is_cancelled(self) -> bool:
        return False


class Request:
    """A request as the server hands it to a model."""

    def __init__(
        self,
        inputs: Mapping[str, NDArray[Any]] | Sequence[Tensor],
        wanted: Sequence[str],
        parameters: Mapping[str, Any] | None = None,
        stream_id: int | str = 0,
        flags: int = 0,
        request_id: str = "call-7",
    ) -> None:
        if isinstance(inputs, Mapping):
            inputs = [Tensor(name, array) for name, array in inputs.items()]
        self._inputs, self._wanted, self._parameters = inputs, list(wanted), parameters
        self._stream_id, self._flags, self._request_id = stream_id, flags, request_id
        self.sender = ResponseSender()

    def inputs(self) -> Sequence[Tensor]:
        return self._inputs

    def requested_output_names(self) -> list[str]:
        return self._wanted

    def parameters(self) -> str:
        return "" if self._parameters is None else json.dumps(self._parameters)

    def request_id(self) -> str:
        return self._request_id

    def correlation_id(self) -> int | str:
        return self._stream_id

    def flags(self) -> int:
        return self._flags

    def timeout(self) -> int:
        """Return the microseconds that the client waits; 0 for no limit."""
        return 0

    def trace(self) -> None:
        return None

    def get_response_sender(self) -> ResponseSender:
        return self.sender
