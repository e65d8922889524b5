"""`conch serve` against a real tritonserver with a tiny model."""

import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import stuck_models
from servers import ANY_PORTS, SERVE, children_of, infer, processes_with, serving, traces_of
from waiting import wait_until

pytestmark = pytest.mark.server


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_stops_on_signal(identity_repository: Path, number: signal.Signals) -> None:
    with serving("--model-repository", str(identity_repository)) as (process, url, name):
        assert infer(url, [1.0]) == [1.0]
        process.send_signal(number)
        # Triton's Python backend may hang while it unloads a model; it is killed after 30 s.
        _, log = process.communicate(timeout=60)
        assert process.returncode == 0
        assert 'WARNING identity says "hello"' in log
        assert "Traceback" not in log
        assert traces_of(name) == []


def test_serve_second_signal_kills(write_model: Callable[..., Path]) -> None:
    repository = write_model("stubborn", stuck_models.AT_END)
    with serving("--model-repository", str(repository)) as (process, _, name):
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert any("finalizing" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
        assert process.returncode == 0
        assert traces_of(name) == []


def test_serve_interrupted_while_loading(write_model: Callable[..., Path]) -> None:
    repository = write_model("slow", stuck_models.AT_START)
    with subprocess.Popen(
        [*SERVE, *ANY_PORTS, "--model-repository", str(repository)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert any("initializing" in line for line in process.stderr)
        (server,) = children_of(process.pid).values()
        name = re.search(r"--id=(\S+)", server)
        assert name
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        assert process.returncode == 0
        assert traces_of(name[1]) == []


def test_serve_killed_takes_the_server_along(identity_repository: Path) -> None:
    with serving("--model-repository", str(identity_repository)) as (process, _, name):
        assert len(processes_with(name)) == 3
        process.kill()
        process.wait(timeout=10)
        wait_until(lambda: traces_of(name) == [])


def test_serve_explains_a_failed_start(write_model: Callable[..., Path]) -> None:
    repository = write_model("broken", "import no_such_module\n")
    done = subprocess.run(
        [*SERVE, *ANY_PORTS, "--log-level", "error", "--model-repository", str(repository)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("conch serve: model 'broken' failed to load: ModuleNotFoundError")
