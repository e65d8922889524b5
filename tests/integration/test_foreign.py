"""A real server says what `conch.wire.foreign` expects; this fails when the wording changes."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import numpy as np
import pytest
import tritonclient.grpc as tritongrpc
import tritonclient.http as tritonhttp
from administration import OPEN, administer
from infer_inputs import inputs_of
from tritonclient.utils import InferenceServerException
from waiting import wait_until

from conch.launcher import ServerConfig, TritonServer
from conch.processes import model_processes
from conch.wire import foreign

pytestmark = pytest.mark.server

TELLS = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            model = pb_utils.get_input_tensor_by_name(request, "MODEL").as_numpy().item().decode()
            values = pb_utils.Tensor("VALUES", __import__("numpy").zeros((1, 1), "float32"))
            answer = pb_utils.InferenceRequest(
                model_name=model, inputs=[values], requested_output_names=["SAME"]
            ).exec()
            text = answer.error().message() if answer.has_error() else ""
            tensor = __import__("numpy").array([[text.encode()]], dtype=object)
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("SAID", tensor)]))
        return answers
"""
SAME = """\
import time
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            values = pb_utils.get_input_tensor_by_name(request, "VALUES").as_numpy()
            time.sleep(float(values[0, 0]))
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("SAME", values)]))
        return answers
"""
TENSORS = """
max_batch_size: 8
input [ {{ name: "{0}" data_type: {1} dims: [ 1 ] }} ]
output [ {{ name: "{2}" data_type: {1} dims: [ 1 ] }} ]
{3}
"""
SEQUENCES = """
sequence_batching {
  max_sequence_idle_microseconds: 60000000
  oldest { max_candidate_sequences: 1 }
}
"""
MODELS = {
    "tells": (TELLS, ("MODEL", "TYPE_STRING", "SAID", "")),
    "mortal": (SAME, ("VALUES", "TYPE_FP32", "SAME", "")),
    "sequences": (SAME, ("VALUES", "TYPE_FP32", "SAME", SEQUENCES)),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    repository = tmp_path_factory.mktemp("models")
    for name, (code, tensors) in MODELS.items():
        folder = repository / name
        (folder / "1").mkdir(parents=True)
        (folder / "1" / "model.py").write_text(code)
        (folder / "config.pbtxt").write_text('backend: "python"' + TENSORS.format(*tensors))
    config = ServerConfig(
        model_repositories=(repository,),
        models=tuple(MODELS),
        extra_args=(OPEN,),
        stop_timeout_s=8,
    )
    with TritonServer(config) as running:
        yield running


def infer(server: TritonServer, model: str, seconds: float = 0.0, **place: object) -> None:
    client = tritongrpc.InferenceServerClient(server.grpc_url)
    inputs = inputs_of(tritongrpc, VALUES=np.full((1, 1), seconds, np.float32))
    try:
        client.infer(model, inputs, client_timeout=60, **place)
    finally:
        client.close()


def said_of(call: Callable[[], object]) -> str:
    """Return the message of the error that a call ends with."""
    with pytest.raises(InferenceServerException) as raised:
        call()
    return str(raised.value.message())


def said_in_process(server: TritonServer, model: str) -> str:
    """Return the message that a model gets that calls another one."""
    client = tritonhttp.InferenceServerClient(server.http_url)
    inputs = inputs_of(tritonhttp, MODEL=np.array([[model.encode()]], dtype=object))
    said = client.infer("tells", inputs).as_numpy("SAID").item()
    client.close()
    return str(said.decode())


def test_of_sequences(server: TritonServer) -> None:
    assert foreign.NO_START in said_of(lambda: infer(server, "sequences", sequence_id=7))
    infer(server, "sequences", sequence_id=1, sequence_start=True)
    late = {"sequence_id": 2, "sequence_start": True, "timeout": 500_000}
    assert foreign.NO_CANDIDATE in said_of(lambda: infer(server, "sequences", **late))
    infer(server, "sequences", sequence_id=1, sequence_end=True)


def test_of_models(server: TritonServer) -> None:
    assert foreign.UNKNOWN_MODEL in said_of(lambda: infer(server, "nobody"))
    assert foreign.NOT_READY.format(model="nobody") in said_in_process(server, "nobody")
    assert said_in_process(server, "mortal") == ""
    for process, name in model_processes(server.pid).items():
        if name == "mortal":
            os.kill(process, signal.SIGKILL)
    assert foreign.PROCESS_DIED.search(said_in_process(server, "mortal"))
    assert foreign.PROCESS_DIED.search(said_of(lambda: infer(server, "mortal")))
    administer(server, "mortal", "unload")
    assert foreign.NOT_READY.format(model="mortal") in said_in_process(server, "mortal")
    assert foreign.UNLOADED_MODEL in said_of(lambda: infer(server, "mortal"))
    administer(server, "mortal", "load")
    assert said_in_process(server, "mortal") == ""


def test_of_lost_connections() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        for url in (address, "no-such-host.invalid:1"):
            client = tritongrpc.InferenceServerClient(url)
            message = said_of(client.is_server_live)
            assert any(words in message for words in foreign.GRPC_LOST), message
            assert not foreign.CONNECTION_BROKEN.search(message)
            client.close()


def test_of_a_server_that_stops_and_of_one_that_is_killed(
    server: TritonServer, tmp_path: Path
) -> None:
    config = ServerConfig(
        model_repositories=server.config.model_repositories, models=("mortal",), stop_timeout_s=20
    )
    with TritonServer(config) as stopping, ThreadPoolExecutor(2) as pool:
        running = pool.submit(infer, stopping, "mortal", 50.0)
        channel = grpc.insecure_channel(stopping.grpc_url)
        grpc.channel_ready_future(channel).result(timeout=30)
        client = tritongrpc.InferenceServerClient(stopping.grpc_url)
        client.is_server_live()
        os.kill(stopping.pid, signal.SIGTERM)
        said: list[str] = []

        def is_exiting() -> bool:
            try:
                return not client.is_server_ready()
            except InferenceServerException:
                return True

        # Before, it takes a request, which then waits for the one that runs.
        wait_until(is_exiting)

        def is_said() -> bool:
            try:
                infer(stopping, "mortal")
            except InferenceServerException as error:
                said.append(str(error.message()))
            return bool(said)

        wait_until(is_said)
        assert any(words in said[0] for words in (*foreign.STOPPING, foreign.UNLOADED_MODEL)), said
        os.kill(stopping.pid, signal.SIGKILL)
        with pytest.raises(InferenceServerException) as lost:
            running.result(timeout=30)
        message = str(lost.value.message())
        assert any(words in message for words in foreign.GRPC_LOST), message
        assert foreign.CONNECTION_BROKEN.search(message)
        client.close()
        channel.close()
