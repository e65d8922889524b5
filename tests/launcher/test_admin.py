"""Triton's administration is closed to clients; recognition is not."""

import http.client
import json
import stat
from pathlib import Path

import pytest
import tritonclient.grpc as grpc
from servers import infer, processes_with

from conch.launcher import ServerConfig, TritonServer
from conch.launcher.admin import (
    ADMIN_APIS,
    OPTIONS,
    callers_restrictions,
    headers_for,
    own_restrictions,
    with_component_key,
    without_keys,
)

REGISTRATION = {"key": "/conch", "offset": 0, "byte_size": 64}
REQUESTS = [
    ("POST", "/v2/systemsharedmemory/region/x/register", REGISTRATION),
    ("GET", "/v2/systemsharedmemory/status", None),
    ("POST", "/v2/systemsharedmemory/unregister", None),
    ("GET", "/v2/cudasharedmemory/status", None),
    ("POST", "/v2/repository/index", {}),
    ("POST", "/v2/repository/models/identity/load", {}),
    ("POST", "/v2/repository/models/identity/unload", {}),
    ("GET", "/v2/trace/setting", None),
    ("POST", "/v2/trace/setting", {"trace_file": "trace.json"}),
    ("GET", "/v2/logging", None),
    ("POST", "/v2/logging", {"log_verbose_level": 1}),
]


def status_of(
    url: str, method: str, path: str, body: object, headers: dict[str, str] | None = None
) -> int:
    connection = http.client.HTTPConnection(url, timeout=10)
    try:
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, body=sent, headers=headers or {})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.server
def test_clients_cannot_administer(identity_repository: Path) -> None:
    with TritonServer(ServerConfig([identity_repository])) as server:
        for method, path, body in REQUESTS:
            assert status_of(server.http_url, method, path, body) == 403, path
        client = grpc.InferenceServerClient(server.grpc_url)
        for refused in (
            lambda: client.register_system_shared_memory("x", "/conch", 64),
            client.get_system_shared_memory_status,
            client.get_model_repository_index,
            lambda: client.load_model("identity"),
            client.get_trace_settings,
            client.get_log_settings,
        ):
            with pytest.raises(grpc.InferenceServerException, match="restricted"):
                refused()
        # APIs that clients and supervisors need.
        assert infer(server.http_url, [1.0]) == [1.0]
        assert client.is_server_ready()
        assert client.get_model_config("identity") is not None
        assert client.get_inference_statistics("identity") is not None
        client.close()
        assert server.models() == ("identity",)
        # Other local users can read neither audio nor texts.
        segments = list(Path("/dev/shm").glob(f"{server.name}-*"))
        assert segments
        assert {stat.filemode(path.stat().st_mode) for path in segments} == {"-rw-------"}


@pytest.mark.server
def test_the_callers_own_key_opens_what_it_restricts(identity_repository: Path) -> None:
    config = ServerConfig(
        [identity_repository],
        extra_args=["--http-restricted-api", "model-repository,inference:x-api-key=secret"],
    )
    with TritonServer(config) as server:
        assert server.models() == ("identity",)
        index: tuple[str, str, dict[str, str]] = ("POST", "/v2/repository/index", {})
        assert status_of(server.http_url, *index) == 403
        assert status_of(server.http_url, *index, {"x-api-key": "secret"}) == 200
        memory = ("GET", "/v2/systemsharedmemory/status", None)
        assert status_of(server.http_url, *memory, {"x-api-key": "secret"}) == 403


@pytest.mark.server
def test_a_server_whose_health_has_a_key_becomes_ready(identity_repository: Path) -> None:
    restricted = ["health:x-health=first", "metadata,model-repository:x-other=second"]
    extra_args = [f"{OPTIONS[0]}={item}" for item in restricted]
    config = ServerConfig([identity_repository], extra_args=extra_args, startup_timeout_s=30)
    with TritonServer(config) as server:
        assert status_of(server.http_url, "GET", "/v2", None) == 403
        assert status_of(server.http_url, "GET", "/v2/health/ready", None) == 403
        assert server.models() == ("identity",)
        assert infer(server.http_url, [1.0]) == [1.0]


@pytest.mark.server
def test_the_log_tells_no_key(identity_repository: Path, caplog: pytest.LogCaptureFixture) -> None:
    extra_args = [OPTIONS[0], "trace:x-api-key=my-secret"]
    with (
        caplog.at_level("DEBUG", "conch.launcher"),
        TritonServer(ServerConfig([identity_repository], extra_args=extra_args)) as server,
    ):
        command = Path(f"/proc/{server.pid}/cmdline").read_text().split("\0")
        commands = "\n".join(processes_with(server.name).values())
    assert server.component_key not in caplog.text
    assert commands and server.component_key not in commands
    keys = {item.value for item in callers_restrictions(command)}
    assert "my-secret" in keys and len(keys) == 2
    assert f"{OPTIONS[0]} trace:x-api-key=***" in caplog.text
    assert not [key for key in keys if key in caplog.text]


def test_a_command_is_shown_without_its_keys() -> None:
    callers = callers_restrictions([OPTIONS[0], "trace,logging:x-api-key=a=b:c"])
    command = ["tritonserver", "--id=a:b=c", *(item.argument for item in callers)]
    assert without_keys([*command, OPTIONS[1], "trace:k=v", "--log-file=x:y=z"]) == [
        "tritonserver",
        "--id=a:b=c",
        "--http-restricted-api=trace,logging:x-api-key=***",
        "--grpc-restricted-protocol",
        "trace:k=***",
        "--log-file=x:y=z",
    ]


def test_everything_is_restricted_once() -> None:
    callers = callers_restrictions(
        ["--log-verbose=1", "--http-restricted-api=trace,inference:x-api-key=a=b"]
    )
    assert [item.argument for item in callers] == [
        "--http-restricted-api=trace,inference:x-api-key=a=b"
    ]
    own = own_restrictions(callers)
    assert {item.option: item.apis for item in own} == {
        OPTIONS[0]: ("shared-memory", "model-repository", "logging"),
        OPTIONS[1]: ADMIN_APIS,
    }
    assert headers_for("trace", [*callers, *own]) == {"x-api-key": "a=b"}
    assert headers_for("logging", [*callers, *own]) == {own[0].header: own[0].value}
    assert len(own[0].value) >= 32


def test_a_key_is_of_one_server_and_not_in_its_repr() -> None:
    first, second = own_restrictions([]), own_restrictions([])
    assert first[0].value != second[0].value
    assert first[0].value not in repr(first)


def test_the_models_inherit_a_key_of_their_own_server() -> None:
    first, second = (TritonServer(ServerConfig()).component_key for _ in range(2))
    assert first != second
    assert len(first) >= 32
    before = {"PATH": "/bin", "CONCH_COMPONENT_KEY": "of another server"}
    assert with_component_key(before, first) == {"PATH": "/bin", "CONCH_COMPONENT_KEY": first}


def test_open_components_have_none() -> None:
    key = TritonServer(ServerConfig(open_components=True)).component_key
    assert key == ""
    assert with_component_key({"PATH": "/bin", "CONCH_COMPONENT_KEY": "old"}, key) == {
        "PATH": "/bin"
    }
