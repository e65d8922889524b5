import json
from typing import Any

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Caller of a component that does nothing; each call waits for the one before."""

    def execute(self, requests: list[Any]) -> list[Any]:
        return [self.answer(request) for request in requests]

    def answer(self, request: Any) -> Any:
        waveform = pb_utils.get_input_tensor_by_name(request, "waveform").as_numpy()
        for _ in range(json.loads(request.parameters())["calls"]):
            call = pb_utils.InferenceRequest(
                model_name="null",
                inputs=[pb_utils.Tensor("waveform", waveform)],
                requested_output_names=["nothing"],
            )
            response = call.exec()
            if response.has_error():
                return pb_utils.InferenceResponse(error=response.error())
        return pb_utils.InferenceResponse([pb_utils.Tensor("nothing", waveform[:, :1])])
