"""`conch serve` heals what dies or freezes and stops quickly: a real tritonserver, a tiny model."""

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import tritonclient.grpc as grpc
from servers import children_of, infer, serving, traces_of
from waiting import wait_until

from conch.launcher import ServerConfig, TritonServer
from conch.processes import model_processes

pytestmark = pytest.mark.server

TAKES_ALL_ANSWERS_NONE = """\
class TritonPythonModel:
    def execute(self, requests):
        print("taken", flush=True)
        self.senders = [request.get_response_sender() for request in requests]
"""

COMPUTES = """\
import time
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        print("taken", flush=True)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            pass
        value = pb_utils.get_input_tensor_by_name(requests[0], "VALUES").as_numpy()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("SAME", value)])]
"""


def server_of(process: "subprocess.Popen[str]") -> int:
    (server,) = children_of(process.pid)
    return server


def answers(url: str, model: str = "identity") -> bool:
    try:
        return infer(url, [1.0], model) == [1.0]
    except OSError:
        return False


def has_gone(process: int, list_children: Callable[[int], dict[int, str]], parent: int) -> bool:
    return process not in list_children(parent)


def wait_for_line(process: "subprocess.Popen[str]", text: str) -> None:
    assert process.stderr is not None
    assert any(text in line for line in process.stderr)


def stop(process: "subprocess.Popen[str]") -> str:
    """End a server in order and return its log."""
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=30)
    assert process.returncode == 0
    return log


def test_a_model_that_dies_or_freezes_is_loaded_again(identity_repository: Path) -> None:
    with serving("--model-repository", str(identity_repository)) as (process, url, name):
        server = server_of(process)
        for number in (signal.SIGKILL, signal.SIGSTOP):
            (stub,) = model_processes(server)
            os.kill(stub, number)
            wait_until(partial(has_gone, stub, model_processes, server))
            wait_until(partial(answers, url))
        assert server_of(process) == server, "it has served on"
        log = stop(process)
        assert "model identity has died and is loaded again" in log
        assert "model identity is frozen and is loaded again" in log
        assert "model identity serves again after" in log
        assert traces_of(name) == []


def test_a_server_that_dies_or_freezes_is_started_again_on_its_ports(
    identity_repository: Path,
) -> None:
    with serving("--model-repository", str(identity_repository)) as (process, url, name):
        for number, reason in (
            (signal.SIGKILL, "tritonserver ended by itself (killed by SIGKILL)"),
            (signal.SIGSTOP, "tritonserver is started again: tritonserver is frozen"),
        ):
            server = server_of(process)
            os.kill(server, number)
            wait_for_line(process, reason)
            # It answers before that, and is not watched yet.
            wait_for_line(process, "tritonserver serves again after")
            assert answers(url)
            assert server_of(process) != server
        assert traces_of(name) == []
        stop(process)


def test_a_server_that_freezes_while_it_starts_is_started_again(identity_repository: Path) -> None:
    with serving("--model-repository", str(identity_repository)) as (process, url, name):
        first = server_of(process)
        os.kill(first, signal.SIGKILL)
        # Read once: while a process becomes another program, its command line is empty.
        (second,) = wait_until(lambda: children_of(process.pid).keys() - {first})
        os.kill(second, signal.SIGSTOP)
        wait_for_line(process, "a signal has stopped a process of the server while it started")
        wait_for_line(process, "tritonserver serves again after")
        assert answers(url)
        assert server_of(process) not in (first, second)
        stop(process)
        assert traces_of(name) == []


def test_a_server_of_a_program_heals_until_its_block_ends(identity_repository: Path) -> None:
    with TritonServer(ServerConfig([identity_repository])) as server:
        name = server.name
        with server.healing():
            (stub,) = model_processes(server.pid)
            os.kill(stub, signal.SIGKILL)
            wait_until(lambda: server.heals["identity"] == 1)
            assert answers(server.http_url)
            first = server.pid
            os.kill(first, signal.SIGKILL)
            wait_until(lambda: server.restarts == 1)
            assert server.pid != first
            assert answers(server.http_url)
            last = server.process
            last.kill()
            wait_until(lambda: last.poll() is not None)
    # Whatever the restart had come to by then.
    assert traces_of(name) == []


def test_a_serve_without_file_descriptors_heals_nothing_and_goes_on(
    identity_repository: Path,
) -> None:
    with serving("--model-repository", str(identity_repository)) as (process, url, _):
        server = server_of(process)
        soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, hard))
        wait_for_line(process, "cannot be watched: [Errno 24]")
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (soft, hard))
        (stub,) = model_processes(server)
        os.kill(stub, signal.SIGKILL)
        wait_until(partial(has_gone, stub, model_processes, server))
        wait_until(partial(answers, url))
        assert stop(process).count("is loaded again") == 1


def test_a_restart_without_file_descriptors_is_tried_again(identity_repository: Path) -> None:
    with serving("--model-repository", str(identity_repository)) as (process, url, name):
        server = server_of(process)
        soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, hard))
        os.kill(server, signal.SIGKILL)
        wait_for_line(process, "could not be started again: [Errno 24]")
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (soft, hard))
        wait_until(partial(answers, url))
        assert traces_of(name) == []
        stop(process)


def test_a_stop_does_not_wait_for_the_next_attempt(identity_repository: Path) -> None:
    with serving("--model-repository", str(identity_repository)) as (process, _, name):
        (identity_repository / "identity" / "config.pbtxt").write_text("no config")
        os.kill(server_of(process), signal.SIGKILL)
        assert process.stderr is not None
        failures = (line for line in process.stderr if "could not be started again" in line)
        for _ in range(3):
            assert next(failures)
        began = time.monotonic()  # 4 s before the next attempt
        stop(process)
        assert time.monotonic() - began < 3
        assert traces_of(name) == []


@pytest.mark.nightly
def test_a_slow_model_is_not_healed(identity_repository: Path) -> None:
    with serving("--model-repository", str(identity_repository)) as (process, url, _):
        server = server_of(process)
        stubs = model_processes(server)
        loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
        try:
            end = time.monotonic() + 60
            while time.monotonic() < end:
                assert infer(url, [1.0]) == [1.0]
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
        assert model_processes(server) == stubs
        assert "again" not in stop(process)


def test_requests_that_a_dead_entry_point_had_taken_end(
    write_model: Callable[..., Path],
) -> None:
    repository = write_model("speech", TAKES_ALL_ANSWERS_NONE)
    with serving("--model-repository", str(repository)) as (process, url, _):
        failures: list[Exception] = []

        def ask() -> None:
            try:
                infer(url, [1.0], "speech", timeout_s=150)
            except OSError as error:
                failures.append(error)

        server = server_of(process)
        (stub,) = model_processes(server)
        asking = threading.Thread(target=ask)
        asking.start()
        wait_for_line(process, "taken")
        os.kill(stub, signal.SIGKILL)
        asking.join(timeout=60)
        assert failures
        assert server_of(process) == server
        wait_for_line(process, "serves again")
        # For Triton that request is in flight for ever, and must not delay the end.
        began = time.monotonic()
        stop(process)
        assert time.monotonic() - began < 10


def test_a_stop_does_not_wait_for_idle_streams(identity_repository: Path) -> None:
    with TritonServer(ServerConfig([identity_repository])) as server:
        client = grpc.InferenceServerClient(server.grpc_url)
        client.start_stream(lambda result, error: None)
        assert client.is_server_live()
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 10, "30 s are allowed for what is computed"
        client.close()


def test_a_stop_waits_for_what_is_computed(write_model: Callable[..., Path]) -> None:
    with TritonServer(ServerConfig([write_model("identity", COMPUTES)])) as server:
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(infer, server.http_url, [1.0])
            wait_until(lambda: "taken" in server.log_tail())
            server.stop()
        assert answer.result() == [1.0]


def test_a_killed_serve_frees_its_ports_soon(identity_repository: Path) -> None:
    with serving("--model-repository", str(identity_repository)) as (process, url, name):
        host, port = url.split(":")
        with socket.create_connection((host, int(port))) as idle:
            idle.sendall(f"GET /v2/health/live HTTP/1.1\r\nHost: {url}\r\n\r\n".encode())
            assert idle.recv(12) == b"HTTP/1.1 200"
            process.kill()
            wait_until(lambda: traces_of(name) == [], timeout_s=10)
