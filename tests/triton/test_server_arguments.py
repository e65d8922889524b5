"""A `tritonserver` that Conch has not started is told what it lacks."""

import os
from pathlib import Path

import pytest

from conch.launcher import ServerConfig
from conch.launcher.admin import ADMIN_APIS, OPTIONS, Restriction
from conch.launcher.config import server_command
from conch.launcher.endpoints import Endpoints
from conch.launcher.installation import Installation
from conch.launcher.process import Workspace
from conch.recognition.config import RecognitionConfig
from conch.triton.server_arguments import missing_arguments, parents_command

CALLS = RecognitionConfig().max_calls_in_flight
CLOSED = [f"{option}={','.join(ADMIN_APIS)}:key=secret" for option in OPTIONS]
POOL = "--backend-config=python,thread-pool-size="
BLAS = {"OPENBLAS_NUM_THREADS": "1"}


def test_a_server_of_the_launcher_lacks_nothing(tmp_path):
    command = server_command(
        ServerConfig(),
        Installation(Path("/opt/tritonserver/bin/tritonserver")),
        Endpoints("127.0.0.1", 1, 2, 3),
        workspace=Workspace("a", tmp_path),
        restricted=[Restriction(option, ADMIN_APIS, "key", "secret") for option in OPTIONS],
    )
    assert missing_arguments(command, BLAS, CALLS) == []


def test_a_bare_server_is_told_of_its_threads_its_open_apis_and_its_environment():
    lacks = missing_arguments(["/opt/bin/tritonserver", "--model-repository=x"], {}, CALLS)
    assert [lack.partition("=")[0] for lack in lacks] == [
        "--backend-config",
        *OPTIONS,
        "OPENBLAS_NUM_THREADS",
    ]
    assert f"thread-pool-size={CALLS + 4}: with 32 threads" in lacks[0]


@pytest.mark.parametrize(
    "arguments",
    [
        [f"{POOL}{CALLS + 4}"],
        ["--backend-config", f"python,thread-pool-size={CALLS + 4}"],
        [f"{POOL}1", f"{POOL}200"],
    ],
)
def test_options_are_read_as_triton_reads_them(arguments):
    assert missing_arguments(["tritonserver", *arguments, *CLOSED], BLAS, CALLS) == []


def test_a_thread_too_few_is_said():
    command = ["tritonserver", f"{POOL}{CALLS + 3}", *CLOSED]
    (lack,) = missing_arguments(command, BLAS, CALLS)
    assert f"with {CALLS + 3} threads" in lack


def test_a_port_that_is_off_needs_no_restriction():
    command = ["tritonserver", f"{POOL}200", CLOSED[0], "--allow-grpc=false"]
    assert missing_arguments(command, BLAS, CALLS) == []


def test_other_programs_are_left_alone():
    assert missing_arguments(["python", "-m", "pytest"], {}, CALLS) == []
    assert missing_arguments([], {}, CALLS) == []


def test_the_command_of_the_parent_is_read():
    told = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode()
    assert "\0".join(parents_command()) + "\0" == told
