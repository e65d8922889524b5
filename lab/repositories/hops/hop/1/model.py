import asyncio
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import triton_python_backend_utils as pb_utils

from conch.bls.call import Call
from conch.bls.hangs import HangWatch
from conch.bls.metrics import Metrics
from conch.bls.traits import Traits
from conch.triton.components import TritonComponents
from conch.triton.model_processes import ModelProcesses, boot_time_s
from conch.triton.statuses import triton_error
from conch.wire.errors import ComponentError


class TritonPythonModel:
    """Caller of a component that does nothing, by `TritonComponents` as in `speech`.

    With its event loop, executor and response sender, and without what a path adds to a call: its
    deadline, its place in a stream, and its count in `stages`.
    """

    def initialize(self, args: dict[str, str]) -> None:
        self.pool = ThreadPoolExecutor(8)
        self.hangs = HangWatch(
            ModelProcesses(os.getppid()), {"null": Traits()}, 5.0, Metrics(), boot_time_s
        )
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            answer = self.answer(request, request.get_response_sender())
            asyncio.run_coroutine_threadsafe(answer, self.loop)

    async def answer(self, request: Any, sender: Any) -> None:
        waveform = pb_utils.get_input_tensor_by_name(request, "waveform").as_numpy()
        components = TritonComponents(None, sender, self.hangs, self.pool)
        try:
            for _ in range(json.loads(request.parameters())["calls"]):
                await components.call(Call("null", {"waveform": waveform[0]}, ("nothing",)))
            response = pb_utils.InferenceResponse([pb_utils.Tensor("nothing", waveform[:, :1])])
        except ComponentError as error:
            response = pb_utils.InferenceResponse(error=triton_error(error))
        components.close()
        sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def finalize(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.pool.shutdown()
