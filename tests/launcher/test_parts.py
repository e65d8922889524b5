"""The parts of the launcher that need no server."""

import importlib.util
import os
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest
from refusals import Refused

from conch.cli import main
from conch.launcher import ServerConfig, endpoints, installation
from conch.launcher.config import BLS_THREADS, server_command
from conch.launcher.endpoints import Endpoints
from conch.launcher.process import Workspace
from conch.launcher.repositories import (
    check_models,
    check_repository,
    check_unique,
    shipped_repositories,
)
from conch.processes import STUB
from conch.wire.errors import ServerError
from lab.model_repository import read_config

WHEEL = installation.wheel_root()
needs_wheel = pytest.mark.skipif(WHEEL is None, reason="nvidia-pytriton is not installed")


# --- ports -------------------------------------------------------------------------------------


def test_taken_port_is_named_with_its_option() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ServerError, match=rf"port {port} on 127.0.0.1 is taken .*--grpc-port"):
            endpoints.require_free("127.0.0.1", port, "--grpc-port")
    endpoints.require_free("127.0.0.1", port, "--grpc-port")


def test_foreign_address_is_refused() -> None:
    with pytest.raises(ServerError, match=r"192\.0\.2\.1 is no address of this machine.*--host"):
        endpoints.pick_free("192.0.2.1", 3)


def test_picked_ports_differ() -> None:
    assert len(set(endpoints.pick_free("127.0.0.1", 20))) == 20


# --- which server ------------------------------------------------------------------------------


def make_server(root: Path, *stubs: str) -> Path:
    """Make files laid out as a server, with a wheel's stubs if any are named."""
    binary = root / "bin" / "tritonserver"
    binary.parent.mkdir(parents=True)
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    python = root / "backends" / "python"
    python.mkdir(parents=True)
    for name in ("libtriton_python.so", "triton_python_backend_utils.py"):
        (python / name).touch()
    for version in stubs:
        stub = root / "python_backend_stubs" / version / STUB
        stub.parent.mkdir(parents=True)
        stub.touch()
    return binary


def test_search_order_is_given_path_then_path_then_wheel(tmp_path: Path) -> None:
    given = make_server(tmp_path / "given")
    on_path = make_server(tmp_path / "container")
    make_server(tmp_path / "wheel", "3.11")
    wheel, search_path = tmp_path / "wheel", str(on_path.parent)

    result = installation.find_installation(given, search_path=search_path, wheel=wheel)
    assert result == installation.Installation(
        given, backend_directory=given.parents[1] / "backends"
    )

    result = installation.find_installation(None, search_path=search_path, wheel=wheel)
    assert result.tritonserver == on_path
    assert result.python_backend is None

    result = installation.find_installation(
        None, search_path=str(tmp_path), wheel=wheel, python=(3, 11)
    )
    assert result.tritonserver == wheel / "bin" / "tritonserver"
    assert result.python_backend is not None
    assert result.python_backend.stub.parent.name == "3.11"


def test_nothing_found_says_what_was_searched(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"PATH has no tritonserver.*nvidia-pytriton.*install"):
        installation.find_installation(None, search_path=str(tmp_path), wheel=None)


def test_an_unsupported_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ServerError, match=r"needs Python 3\.11 or 3\.12, and this is 3\.10; commands"
    ):
        installation.find_installation(make_server(tmp_path / "given"), python=(3, 10))


def test_given_path_must_be_a_program(tmp_path: Path) -> None:
    plain = tmp_path / "tritonserver"
    plain.touch()
    with pytest.raises(ServerError, match=str(plain)):
        installation.find_installation(plain)
    with pytest.raises(ServerError, match="~nobody-of-this-name/x"):
        installation.find_installation("~nobody-of-this-name/x")


def test_wheel_without_a_stub_for_this_python(tmp_path: Path) -> None:
    make_server(tmp_path, "3.9", "3.10", "3.8")
    with pytest.raises(
        ServerError, match=r"no Python backend for Python 3\.11; .*3\.8, 3\.9, 3\.10"
    ):
        installation.wheel_backend(tmp_path, (3, 11))


def test_numpy_2_is_refused() -> None:
    installation.check_numpy("1.26.4")
    with pytest.raises(ServerError, match=r"numpy 2\.0\.1 is installed: pip install 'numpy<2'"):
        installation.check_numpy("2.0.1")


def test_backend_directory_is_made_of_links(tmp_path: Path) -> None:
    make_server(tmp_path / "wheel", "3.11")
    backend = installation.wheel_backend(tmp_path / "wheel", (3, 11))
    python = backend.link_into(tmp_path / "made") / "python"
    assert {path.name: path.readlink() for path in python.iterdir()} == {
        "libtriton_python.so": backend.library,
        "triton_python_backend_utils.py": backend.utils,
        "triton_python_backend_stub": backend.stub,
    }


def test_wheel_is_found_without_importing_it() -> None:
    spec = importlib.util.find_spec("pytriton")
    assert (WHEEL is not None) == (spec is not None)


# --- libraries ---------------------------------------------------------------------------------


def test_parse_trace() -> None:
    text = (
        "\tlinux-vdso.so.1 (0x00007fe78235d000)\n"
        "\tlibpython3.11.so.1.0 => not found\n"
        "\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007fe7820cb000)\n"
    )
    assert installation.parse_trace(text) == {
        "libpython3.11.so.1.0": None,
        "libz.so.1": Path("/lib/x86_64-linux-gnu/libz.so.1"),
    }


@needs_wheel
def test_missing_libpython_is_named_with_its_debian_package() -> None:
    assert WHEEL is not None
    for stub in sorted((WHEEL / "python_backend_stubs").glob("3.*/*stub")):
        version = stub.parent.name
        libpython = f"libpython{version}.so.1.0"
        if installation.trace_libraries(stub, os.environ).get(libpython) is None:
            break
    else:
        pytest.skip("this machine has the library of every Python")
    expected = rf"needs {libpython}, .*/nowhere.* apt-get install libpython{version}$"
    with pytest.raises(ServerError, match=expected):
        installation.server_environment(stub, libpython=libpython, directories=[Path("/nowhere")])


@needs_wheel
def test_this_interpreter_finds_its_own_libpython() -> None:
    assert WHEEL is not None
    stub = installation.find_installation(None, search_path="", wheel=WHEEL).python_backend
    assert stub is not None
    made = installation.server_environment(stub.stub)
    assert installation.trace_libraries(stub.stub, made)[installation.LIBPYTHON] is not None


def test_settings_of_the_libraries_unless_the_caller_has_others() -> None:
    made = installation.server_environment(None, base={})
    assert made["OPENBLAS_NUM_THREADS"] == "1"
    assert made["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1"
    asked = {"OPENBLAS_NUM_THREADS": "4", "GLIBC_TUNABLES": ""}
    assert installation.server_environment(None, base=asked).items() >= asked.items()


def test_program_of_another_machine_is_refused(tmp_path: Path) -> None:
    alien = tmp_path / "stub"
    alien.write_bytes(b"\x7fELF nothing that runs")
    alien.chmod(0o755)
    with pytest.raises(ServerError, match=r"does not run on this machine"):
        installation.trace_libraries(alien, os.environ)


def test_small_shared_memory_is_worth_a_warning() -> None:
    assert "--shm-size" in str(installation.shared_memory_shortage(free_bytes=64 << 20))
    assert installation.shared_memory_shortage(free_bytes=1 << 30) is None


# --- configuration, repositories, command line -------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"http_port": 70000}, "--http-port must be from 0"),
        ({"http_port": 8000, "grpc_port": 8000}, "--http-port and --grpc-port are both 8000"),
        ({"startup_timeout_s": 0}, "startup_timeout_s must be above 0"),
        ({"log_level": "loud"}, "log level must be one of"),
        ({"model_repositories": ()}, "at least one model repository"),
        ({"extra_args": ["--http-port=1"]}, "--http-port is set by Conch itself"),
        (
            {"extra_args": ["--http-restricted-api", "inference"]},
            "--http-restricted-api takes API.*sent: 'inference'",
        ),
        ({"models": ["a"], "extra_args": ["--load-model=b"]}, "--load-model is set by Conch"),
    ],
)
def test_config_refuses(values: dict[str, object], message: str) -> None:
    with pytest.raises(ServerError, match=message):
        ServerConfig(**{"model_repositories": ["models"], **values})  # type: ignore[arg-type]


def command_with(
    extra_args: Sequence[str], directory: Path, models: Sequence[str] = ()
) -> Sequence[str]:
    return server_command(
        ServerConfig(model_repositories=["a", "b"], models=models, extra_args=extra_args),
        installation.Installation(Path("/opt/tritonserver/bin/tritonserver")),
        Endpoints("127.0.0.1", 1, 2, 3),
        workspace=Workspace("conch-x", directory),
        restricted=[],
    )


def test_bls_calls_have_as_many_threads_as_the_caller_says(tmp_path: Path) -> None:
    calls = int(read_config("speech").parameters["max_calls_in_flight"].string_value)
    # The threads send the answers as well.
    assert calls < BLS_THREADS
    ours = f"--backend-config=python,thread-pool-size={BLS_THREADS}"
    assert ours in command_with([], tmp_path)
    theirs = "--backend-config=python,thread-pool-size=9"
    command = command_with([theirs], tmp_path)
    assert command.index(theirs) > command.index(ours)  # Triton takes the last


def test_extra_arguments_come_last(tmp_path: Path) -> None:
    command = command_with(["--http-thread-count", "9"], tmp_path)
    assert command[-2:] == ["--http-thread-count", "9"]
    assert "--model-repository=a" in command
    assert "--model-repository=b" in command
    assert not [argument for argument in command if argument.startswith("--backend-directory")]


def test_only_the_models_that_are_named_are_loaded(tmp_path: Path) -> None:
    command = command_with([], tmp_path, models=["vad", "speech", "vad"])
    assert "--model-control-mode=explicit" in command
    loaded = [item for item in command if item.startswith("--load-model")]
    assert loaded == ["--load-model=vad", "--load-model=speech"]


def test_models_are_loaded_in_the_mode_in_which_they_can_be_healed(tmp_path: Path) -> None:
    command = command_with([], tmp_path)
    assert "--model-control-mode=explicit" in command
    assert "--load-model=*" in command
    theirs = command_with(["--model-control-mode=poll"], tmp_path)
    assert [item for item in theirs if "model-control" in item or "load-model" in item] == [
        "--model-control-mode=poll"
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rescore", "no model 'rescore' in the model repositories; did you mean rescorer?"),
        ("zebra", "no model 'zebra' in the model repositories; they have acoustic, "),
    ],
)
def test_a_model_that_is_not_there_is_refused(name: str, message: str) -> None:
    check_models(shipped_repositories(), ["speech", "vad"])
    with pytest.raises(ServerError) as refused:
        check_models(shipped_repositories(), ["vad", name])
    assert str(refused.value).startswith(message)


def test_every_address_is_reached_through_the_loopback() -> None:
    assert Endpoints("0.0.0.0", 1, 2, 3).reachable == "127.0.0.1"


def test_shipped_repositories_exist() -> None:
    assert [path.name for path in shipped_repositories()] == ["bls_models", "component_models"]


def test_repository_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="is not a folder"):
        check_repository(tmp_path / "none")
    with pytest.raises(ServerError, match="has no model"):
        check_repository(tmp_path)
    (tmp_path / "model").mkdir()
    check_repository(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    with pytest.raises(ServerError, match=r"remove .*__pycache__"):
        check_repository(tmp_path)


def test_serve_without_repository(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--http-port", "0", "--model-repository", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.startswith("conch serve: ")


@pytest.mark.parametrize("arguments", [["serve", "stray"], ["serve", "--http-port", "x"], []])
def test_wrong_usage(arguments: list[str], refused: Refused) -> None:
    said = refused(*arguments)
    assert "usage: conch" in said or "--help lists all" in said


def test_two_models_of_one_name_are_refused_with_their_repositories(tmp_path: Path) -> None:
    (tmp_path / "vad").mkdir()
    check_unique(shipped_repositories())
    with pytest.raises(ServerError, match=f"'vad' is in two .*component_models and {tmp_path}: "):
        check_unique([*shipped_repositories(), tmp_path])
