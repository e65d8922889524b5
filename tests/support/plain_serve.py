"""`conch serve` without models, for tests of what sends it recordings: texts are hashes of audio.

Run as `python plain_serve.py serve …`: it takes the arguments of `conch serve` and ignores them.
CONCH_PLAIN_SECONDS is the time of one request, CONCH_PLAIN_VERSION the version of its models.
"""

import hashlib
import os
import time
from concurrent import futures
from typing import Any

import grpc  # type: ignore[import-untyped]
import numpy as np
from tritonclient.grpc import service_pb2, service_pb2_grpc

from conch.wire.errors import AudioError, to_wire
from conch.wire.result import Hypothesis, Segment, Stage, Transcript

SECONDS = float(os.environ.get("CONCH_PLAIN_SECONDS", "0.05"))
VERSION = os.environ.get("CONCH_PLAIN_VERSION", "1")
BAD = b"bad"
"""Audio that begins with this is refused."""


class PlainServer(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Answers each request with the text that `text_for` returns."""

    def ModelInfer(self, request: Any, context: Any) -> Any:
        time.sleep(SECONDS)
        audio = request.raw_input_contents[0][4:]
        if audio.startswith(BAD):
            error = AudioError("AUDIO cannot be decoded")
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, to_wire(error))
        found = transcript_for(audio).to_json().encode()
        answer = service_pb2.ModelInferResponse(model_name=request.model_name)
        answer.outputs.add(name="RESULT", datatype="BYTES", shape=[1, 1])
        answer.raw_output_contents.append(len(found).to_bytes(4, "little") + found)
        return answer

    def ModelReady(self, request: Any, context: Any) -> Any:
        return service_pb2.ModelReadyResponse(ready=True)

    def ModelConfig(self, request: Any, context: Any) -> Any:
        return service_pb2.ModelConfigResponse()

    def ModelMetadata(self, request: Any, context: Any) -> Any:
        return service_pb2.ModelMetadataResponse(name=request.name, versions=[VERSION])


def transcript_for(audio: bytes) -> Transcript:
    """Return the transcript of an audio: other bytes, other texts."""
    text = hashlib.sha256(audio).hexdigest()
    best = Hypothesis(text=text, score=-1.0, am_score=-1.0)
    seconds = float(np.float32(len(audio) / 32000))
    return Transcript(
        nbest=(best,),
        segments=(Segment(0.0, seconds, (best,)),),
        duration=seconds,
        path=("vad", "attention_encoder"),
        stages={"total": Stage(1, time.time() % 1000)},
    )


def main() -> None:
    server = grpc.server(futures.ThreadPoolExecutor(8))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(PlainServer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"Conch is ready.\n  gRPC     grpc://127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
