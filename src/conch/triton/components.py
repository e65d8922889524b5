"""The component models of this server: call them in process (BLS), and load them."""

import asyncio
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from itertools import count
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

import numpy as np
import triton_python_backend_utils as pb_utils

from conch.bls.call import Call, ComponentAwayError, Outputs, StreamLostError, TensorHandle
from conch.bls.hangs import HangWatch
from conch.bls.service import Responder
from conch.component import Array
from conch.triton.memory import watch
from conch.triton.tracing import RequestSpan
from conch.wire import entry_points, foreign
from conch.wire.entry_points import SERVED_VARIABLE, ChunkPosition, OnDemandSettings
from conch.wire.errors import (
    ComponentError,
    OptionError,
    OverloadedError,
    RequestCancelledError,
    SessionError,
    TranscriptionError,
    from_wire,
    out_of_shared_memory,
)
from conch.wire.needs import missing

logger = logging.getLogger(__name__)

TRACEBACK = "\n\nAt:\n"
"""Separator of message and traceback in the error of a Python model."""
POST_PATIENCE_S = 30.0
"""Longest time for a call of a model that is not Conch's own, in seconds. Triton ends no call that
has begun, and a request may have no deadline."""
LOAD_TIMEOUT_S = 120.0
# From a time on, so that no two models of the server which make calls have the same numbers.
_numbers = count(time.time_ns())
_ready_pool = ThreadPoolExecutor(1, thread_name_prefix="bls-ready")
"""Asks whether a model is ready: all other threads may wait for a process that has died."""


class TritonComponents:
    """The component models of this server, called in process for one request or for none."""

    def __init__(
        self,
        span: RequestSpan | None,
        responder: Responder | None,
        hangs: HangWatch,
        pool: Executor,
        ends: Executor | None = None,
        post: Executor | None = None,
        *,
        ends_stream: bool = False,
    ) -> None:
        """`ends` runs calls that end a stream, `post` those of other models; default is `pool`."""
        self._span, self._hangs = span, hangs
        self._pool, self._ends, self._post = pool, ends or pool, post or pool
        self._responder, self._ends_stream = responder, ends_stream
        self._is_open = True
        self._lock = threading.Lock()

    def close(self, failure: TranscriptionError | None = None) -> None:
        """Refuse further calls, and end the span; see `conch.bls.host.RequestComponents.close`.

        A cancelled call may still wait for a thread. Using the response sender after its last
        response crashes the server.
        """
        with self._lock:
            self._is_open = False
        watch.called(num_ended=self._ends_stream)
        if self._span:
            self._span.end(failure)

    async def call(self, call: Call) -> Outputs:
        """Call a component in a thread; a model that is not Conch's own has POST_PATIENCE_S."""
        loop = asyncio.get_running_loop()
        is_own = call.model in self._hangs.components
        ends = call.sequence is not None and call.sequence.ends
        pool = self._post if not is_own else self._ends if ends else self._pool
        hung: ComponentAwayError | None = None

        def give_up(error: ComponentAwayError) -> None:
            nonlocal hung
            hung = error
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(lambda: made.cancel())

        timeout_s, number = call.queue_timeout_s(), {}
        if self._hangs.traits(call.model).in_flight:
            number = {entry_points.CALL_NUMBER: next(_numbers)}
        made = loop.run_in_executor(pool, self._call, call, number, timeout_s, give_up)
        try:
            return await asyncio.wait_for(made, None if is_own else POST_PATIENCE_S)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if hung is None or (task and task.cancelling()):
                if number:
                    with suppress(RuntimeError):  # the threads are closed
                        self._ends.submit(_leave, call, number[entry_points.CALL_NUMBER])
                raise
            raise hung from None
        except TimeoutError as error:
            if isinstance(error, TranscriptionError):
                raise
            raise ComponentError(
                f"{call.model} has not answered within {POST_PATIENCE_S:g} s"
            ) from None

    async def is_loaded(self, model: str) -> bool:
        return await asyncio.get_running_loop().run_in_executor(_ready_pool, _is_ready, model)

    def give_up(self, model: str) -> None:
        self._hangs.give_up(model)

    def _call(
        self,
        call: Call,
        number: Mapping[str, int],
        timeout_s: float | None,
        give_up: Callable[[ComponentAwayError], None],
    ) -> Outputs:
        """Make the BLS call; a hang is reported to `give_up`."""
        with self._lock:
            if not self._is_open or (self._responder and self._responder.is_cancelled()):
                raise RequestCancelledError(f"the client cancelled before {call.model} was called")
        is_component = call.model not in entry_points.ENTRY_POINTS
        key = entry_points.own_key() if is_component else {}
        request = pb_utils.InferenceRequest(
            model_name=call.model,
            inputs=[_bls_input(name, value) for name, value in call.inputs.items()],
            requested_output_names=list(call.outputs),
            parameters={**call.parameters, **number, **key},
            timeout=int(timeout_s * 1e6) if timeout_s else 0,
            **(_sequence(call.sequence) if call.sequence else {}),
        )
        size = call.work * sum(map(_size, call.inputs.values()))
        span = self._span.calling(call.model) if self._span else nullcontext()
        with span, self._hangs.calling(call, size, give_up):
            response = request.exec()
            if response.has_error():
                raise _error(call.model, response.error().message())
        return {tensor.name(): TritonTensor(tensor) for tensor in response.output_tensors()}


def _leave(call: Call, number: int) -> None:
    """Tell a component that nobody waits for a call of it any more."""
    # With the same inputs, as Triton checks them.
    pb_utils.InferenceRequest(
        model_name=call.model,
        inputs=[_bls_input(name, value) for name, value in call.inputs.items()],
        requested_output_names=[],
        parameters={entry_points.LEAVING_CALL: number, **entry_points.own_key()},
    ).exec()


def _error(model: str, message: str) -> TranscriptionError:
    said = from_wire(message)
    # Only the model can check some options, such as the language. They are the client's error.
    if isinstance(said, OptionError | OverloadedError):
        return said
    if isinstance(said, SessionError) or foreign.NO_START in message:
        return StreamLostError(f"{model}: {message if said is None else said}")
    if said is not None:
        return ComponentError(f"{model}: {said}")
    # From here on it is an error of Triton, or of a model that is not Conch's own.
    if full := out_of_shared_memory(message):
        return full
    if foreign.PROCESS_DIED.search(message):
        return ComponentAwayError(f"the process of {model} has died")
    if foreign.NO_CANDIDATE in message:
        return OverloadedError(
            f"{model} keeps as many streams as it takes (max_candidate_sequences); try again"
        )
    if message.endswith(foreign.STOPPING):
        return OverloadedError("the server is stopping; send the request again to another one")
    if _is_missing(model, message):
        return missing(model, os.environ.get(SERVED_VARIABLE, "").split(","))
    # A traceback may follow, with the folders of this machine.
    logger.error("%s has failed: %s", model, message)
    return ComponentError(f"{model}: {message.partition(TRACEBACK)[0]}")


def _is_missing(model: str, message: str) -> bool:
    """Return whether an error says that the server lacks a model; it has one that has died."""
    return foreign.NOT_READY.format(model=model) in message


def _is_ready(model: str) -> bool:
    """Return whether the server has a model, by a call without inputs, which it refuses itself.

    `pb_utils.is_model_ready` of Triton 2.51 may end this process while the server stops: it reads
    the text of its error after the server has freed it.
    """
    request = pb_utils.InferenceRequest(
        model_name=model, inputs=[], requested_output_names=[], parameters=entry_points.own_key()
    )
    response = request.exec()
    return not (response.has_error() and _is_missing(model, response.error().message()))


def _size(value: Array | TensorHandle) -> int:
    if isinstance(value, TritonTensor):
        return value.numpy().nbytes if value.tensor.is_cpu() else 0
    array = np.asarray(value)
    return array.nbytes if array.dtype != np.object_ else sum(map(len, array.ravel()))


def _sequence(sequence: ChunkPosition) -> dict[str, Any]:
    start = pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START if sequence.starts else 0
    end = pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END if sequence.ends else 0
    return {"correlation_id": sequence.stream_id, "flags": start | end}


class TritonTensor:
    """A component's output, which another component takes without a copy to the host."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def numpy(self) -> Array:
        if self.tensor.is_cpu():
            rows = self.tensor.as_numpy()
        else:
            import torch.utils.dlpack  # only where a component answers from a GPU

            rows = torch.utils.dlpack.from_dlpack(self.tensor.to_dlpack()).cpu().numpy()
        array: Array = rows[0]
        return array


def _bls_input(name: str, value: Array | TensorHandle) -> Any:
    if isinstance(value, TritonTensor):
        if value.tensor.name() != name:
            raise ValueError(f"{value.tensor.name()} cannot be sent as {name}")
        return value.tensor
    return pb_utils.Tensor(name, np.ascontiguousarray(value)[np.newaxis])


async def load(settings: OnDemandSettings, model: str) -> None:
    """Load a model and wait until it is ready; raise a ComponentError with Triton's message.

    It asks the server's repository API: `pb_utils.load_model` of Triton 2.51 holds Python's lock
    until the model is loaded, so all requests of the process would stand still.
    """
    await asyncio.to_thread(_load, settings, model)


def _load(settings: OnDemandSettings, model: str) -> None:
    headers = {"Content-Type": "application/json", **settings.headers}
    request = Request(f"{settings.url}/{model}/load", b"{}", headers)
    try:
        # The server is on this machine, whatever proxy the environment names.
        build_opener(ProxyHandler({})).open(request, timeout=LOAD_TIMEOUT_S).close()
    except HTTPError as error:
        with error:
            said = error.read().decode("utf-8", "replace")
        try:
            said = str(json.loads(said)["error"])
        except (ValueError, KeyError, TypeError):
            said = said or str(error)
        raise ComponentError(said.partition(TRACEBACK)[0].strip()) from None
    except (URLError, OSError) as error:
        raise ComponentError(f"the server has not answered: {error}") from None
