"""The launcher against a real tritonserver with a tiny model."""

import logging
import os
import socket
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
import stuck_models
from servers import infer, processes_with, traces_of

from conch.launcher import ServerConfig, TritonServer, guard, triton_server
from conch.launcher.installation import wheel_root
from conch.launcher.logs import LOGGER
from conch.wire.errors import ServerError
from conch.wire.hosts import host_port

pytestmark = pytest.mark.server


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_start_infer_stop_and_nothing_left(
    identity_repository: Path, host: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, LOGGER.name)
    config = ServerConfig([identity_repository], host=host, log_level="warning")
    with TritonServer(config) as server:
        assert infer(server.http_url, [1.0, -2.5]) == [1.0, -2.5]
        assert server.models() == ("identity",)
        with urllib.request.urlopen(server.metrics_url, timeout=10) as response:
            assert b"nv_inference_request_success" in response.read()
        port = int(server.grpc_url.rpartition(":")[2])
        assert server.grpc_url == host_port(host, port)
        socket.create_connection((host, port), timeout=10).close()
        assert len(processes_with(server.name)) == 3  # server, stub, guard
        assert len(list(Path("/dev/shm").glob(f"{server.name}*"))) == 1
        assert Path(os.readlink(f"/proc/{server.pid}/exe")).name == "tritonserver"
        assert "Started HTTPService" in server.log_tail()
    assert traces_of(server.name) == []
    forwarded = [record for record in caplog.records if hasattr(record, "source")]
    said = [item for item in forwarded if item.getMessage() == 'identity says "hello"']
    assert [(item.levelno, item.source) for item in said] == [(logging.WARNING, "model.py:6")]
    assert all(item.levelno >= logging.WARNING for item in forwarded)
    with pytest.raises(ServerError, match="not running"):
        _ = server.http_url


def test_error_in_the_body_still_stops(identity_repository: Path) -> None:
    server = TritonServer(ServerConfig(model_repositories=[identity_repository]))
    with pytest.raises(RuntimeError, match="of the caller"), server:
        raise RuntimeError("of the caller")
    assert traces_of(server.name) == []


def test_two_servers_at_once(identity_repository: Path) -> None:
    config = ServerConfig([identity_repository])
    with TritonServer(config) as first, TritonServer(config) as second:
        assert len({first.http_url, second.http_url, first.grpc_url, second.grpc_url}) == 4
        assert infer(first.http_url, [1.0]) == infer(second.http_url, [1.0]) == [1.0]
        first.stop()
        assert traces_of(first.name) == []
        assert infer(second.http_url, [2.0]) == [2.0]


def test_lost_port_race_ends_in_other_ports(
    identity_repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = triton_server.pick_free  # type: ignore[attr-defined]
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        answers = [[taken, *real("127.0.0.1", 2)]]
        monkeypatch.setattr(
            triton_server, "pick_free", lambda host, n: answers.pop() if answers else real(host, n)
        )
        with TritonServer(ServerConfig([identity_repository])) as server:
            assert answers == []
            assert server.http_url != f"127.0.0.1:{taken}"
            assert infer(server.http_url, [1.0]) == [1.0]


def test_explicit_port_taken(identity_repository: Path) -> None:
    with TritonServer(ServerConfig([identity_repository])) as first:
        port = int(first.http_url.partition(":")[2])
        second = TritonServer(ServerConfig([identity_repository], http_port=port))
        with pytest.raises(ServerError, match=rf"port {port} .* is taken .*--http-port"):
            second.start()


def test_model_that_raises_is_named_with_its_reason(
    write_model: Callable[..., Path], identity_repository: Path
) -> None:
    repository = write_model(
        "broken",
        "class TritonPythonModel:\n"
        "    def initialize(self, args):\n"
        "        raise FileNotFoundError('no weights at /nowhere')\n",
    )
    with pytest.raises(ServerError) as error_info, TritonServer(ServerConfig([repository])):
        pass
    message = str(error_info.value)
    assert "model 'broken' failed to load: FileNotFoundError: no weights at /nowhere" in message
    assert "identity" not in message
    assert len(message.splitlines()) == 1


def test_model_without_code_is_an_error_not_a_hang(write_model: Callable[..., Path]) -> None:
    repository = write_model("empty", "")
    (repository / "empty" / "1" / "model.py").unlink()
    with pytest.raises(ServerError, match=r"not found in .*empty/1/model\.py"):
        TritonServer(ServerConfig([repository])).start()


def test_slow_model_is_named_at_the_timeout(write_model: Callable[..., Path]) -> None:
    repository = write_model("slow", stuck_models.AT_START)
    config = ServerConfig([repository], startup_timeout_s=2.0)
    with pytest.raises(ServerError, match=r"not ready within 2 s; still loading: slow"):
        TritonServer(config).start()


def test_stubborn_model_is_killed_after_the_stop_timeout(
    write_model: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    repository = write_model("stubborn", stuck_models.AT_END)
    with TritonServer(ServerConfig([repository], stop_timeout_s=1.0)) as server:
        pass
    assert "did not stop within 1 s and is killed" in caplog.text
    assert traces_of(server.name) == []


def test_wrong_option_is_quoted(identity_repository: Path) -> None:
    config = ServerConfig([identity_repository], extra_args=["--bogus"])
    with pytest.raises(ServerError, match=r"refused to start: .*unrecognized option '--bogus'"):
        TritonServer(config).start()


@pytest.mark.skipif(wheel_root() is None, reason="nvidia-pytriton is not installed")
def test_tritonserver_given_by_path(identity_repository: Path) -> None:
    root = wheel_root()
    assert root is not None
    config = ServerConfig([identity_repository], tritonserver=root / "bin" / "tritonserver")
    with TritonServer(config) as server:
        assert infer(server.http_url, [1.0]) == [1.0]


def test_server_started_by_a_thread_outlives_it(identity_repository: Path) -> None:
    """The kernel's parent-death signal would fail here."""
    import threading

    server = TritonServer(ServerConfig([identity_repository]))
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    try:
        assert infer(server.http_url, [1.0]) == [1.0]
        assert guard.group_members(server.pid)
    finally:
        server.stop()
