"""What is decided about processes: which models are sick, when to try again, when all is quiet."""

from pathlib import Path

import pytest

from conch.launcher import ServerConfig, TritonServer
from conch.launcher.healing import (
    EMPTY_S,
    FROZEN_S,
    QUIET_S,
    Backoff,
    Look,
    Quiet,
    frozen,
    sick_models,
    stopped_since,
)
from conch.launcher.triton_server import CRASH_ATTEMPTS
from conch.wire.errors import ServerError

WELL = {1: Look("vad", "S"), 2: Look("vad", "R"), 3: Look("speech", "D")}


def test_processes_that_sleep_compute_or_read_are_well() -> None:
    assert sick_models(WELL, set()) == {}


@pytest.mark.parametrize("state", ["", "Z", "X"])
def test_a_model_is_sick_when_one_of_its_processes_has_died(state: str) -> None:
    assert sick_models({**WELL, 2: Look("vad", state)}, set()) == {"vad": "has died"}


def test_a_process_is_frozen_only_after_a_while() -> None:
    looks = {**WELL, 2: Look("vad", "T")}
    stopped = stopped_since({}, looks, 100.0)
    assert frozen(stopped, 100.0) == set()
    stopped = stopped_since(stopped, looks, 100.0 + FROZEN_S)
    assert frozen(stopped, 100.0 + FROZEN_S) == {2}
    assert sick_models(looks, {2}) == {"vad": "is frozen"}


def test_a_process_that_goes_on_in_between_is_not_frozen() -> None:
    looks = {**WELL, 2: Look("vad", "T")}
    stopped = stopped_since({}, looks, 100.0)
    stopped = stopped_since(stopped, WELL, 100.5)
    stopped = stopped_since(stopped, looks, 100.6)
    assert frozen(stopped, 100.0 + FROZEN_S + 0.5) == set()


def test_what_died_is_said_of_a_model_that_is_frozen_too() -> None:
    looks = {1: Look("vad", "Z"), 2: Look("vad", "T")}
    assert sick_models(looks, {2}) == {"vad": "has died"}


def waits_of(backoff: Backoff, attempts: int, now: float) -> list[float]:
    waits = []
    for _ in range(attempts):
        waits.append(backoff.wait_s(now))
        now += waits[-1]
        backoff.attempt(now)
    return waits


def test_attempts_become_rarer() -> None:
    assert waits_of(Backoff(60.0), 9, now=1000.0) == [0, 1, 2, 4, 8, 16, 30, 30, 30]


def test_after_health_the_next_attempt_is_at_once_again() -> None:
    backoff = Backoff(10.0)
    waits_of(backoff, 4, now=1000.0)  # the last one at 1007, and one more due at 1015
    assert waits_of(backoff, 3, now=1025.0) == [0, 1, 2]
    assert waits_of(backoff, 2, now=1036.0) == [0, 8]


def ends_at(looks: dict[int, Look], cpu_s: list[float]) -> float | None:
    """Return after how many seconds a server with a look a second is found quiet."""
    quiet = Quiet()
    return next((i * 1.0 for i, used in enumerate(cpu_s) if quiet.look(looks, used, i)), None)


def test_a_server_that_computes_is_not_quiet() -> None:
    idle = {1: Look("speech", "S")}
    assert ends_at(idle, [5.0 + 0.06 * i for i in range(30)]) is None
    assert ends_at({1: Look("speech", "D")}, [5.0] * 30) is None


def test_idle_models_use_a_little_time() -> None:
    assert ends_at({1: Look("speech", "S")}, [5.0 + 0.01 * i for i in range(30)]) == QUIET_S


def test_a_model_that_ends_is_work() -> None:
    assert ends_at({1: Look("speech", "S")}, [5.0, 5.0, 3.0, 3.0, 3.0]) == 2 + QUIET_S


def test_a_server_without_living_models_is_quiet_soon() -> None:
    quiet = Quiet()
    gone = {1: Look("speech", ""), 2: Look("vad", "Z")}
    assert not quiet.look(gone, 0.0, 10.0)
    assert quiet.look(gone, 0.0, 10.0 + EMPTY_S)


def test_a_start_that_crashes_is_tried_once_more(identity_repository: Path, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    program = tmp_path / "bin" / "tritonserver"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho start >> {starts}\nkill -ABRT $$\n")
    program.chmod(0o755)
    with pytest.raises(ServerError, match="killed by SIGABRT"):
        TritonServer(ServerConfig([identity_repository], tritonserver=program)).start()
    assert starts.read_text() == "start\n" * CRASH_ATTEMPTS
