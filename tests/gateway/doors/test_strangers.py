"""Every door under every stranger, on a real server; honest clients beside them get their text.

A door that is declared is tested here without a new test, once it has a client.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gateways import Gateway
from killing import listener_at
from metrics import metrics_of
from waiting import wait_until

from conch.gateway.doors import DOORS, Door
from conch.processes import model_processes
from lab.chaos.visits.battery import CROWD, THOSE_WHO_STAY, Battery, Findings, visit_all
from lab.chaos.visits.behaviours import QUICK, SLOW, Behaviour
from lab.chaos.visits.clients import client_of
from lab.gateway_process import gateway_with

FALLS: dict[tuple[str, str], str] = {}
"""What does not hold today, by door and behaviour, and why."""

MANY = 100
"""Clients at once."""
FEW = 4
"""Clients at once beside a process that is killed."""
VICTIMS = {
    "file": "vad",
    "live audio": "ctc_streaming_encoder",
    "text": "vocoder",
    "live text": "vocoder",
}
"""A component that works for a door, by what it takes."""
AT_WORK = [door for door in DOORS if door.takes in VICTIMS]

pytestmark = pytest.mark.timeout(1800)
by_name = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)


@by_name
def test_every_door_has_a_client(door: Door) -> None:
    assert callable(client_of(door))


@pytest.fixture(scope="module")
def found(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """Return what came of all visits: those of one door at once, and then all who stay."""
    return asyncio.run(visit_all(gateway.grpc_url, tmp_path_factory.mktemp("strangers")))


def cases() -> Iterator[Any]:
    for door in DOORS:
        for behaviour in (*QUICK, *SLOW):
            why = FALLS.get((door.name, behaviour.name))
            marks = pytest.mark.xfail(reason=why, strict=True) if why else ()
            yield pytest.param(door, behaviour, marks=marks, id=f"{door.name}, {behaviour.name}")


@pytest.mark.server
@pytest.mark.parametrize(("door", "behaviour"), [*cases()])
def test_a_stranger_gets_a_right_answer(found: Findings, door: Door, behaviour: Behaviour) -> None:
    answers = found.answers[door.name, behaviour.name]
    assert [answer for answer, is_right in answers if not is_right] == []


@pytest.mark.server
@by_name
def test_an_honest_client_beside_strangers_is_served(found: Findings, door: Door) -> None:
    beside = found.honest[door.name]
    assert [answer for answer, is_right in beside if not is_right] == []
    assert len(beside) == 2


@pytest.mark.server
@pytest.mark.parametrize("visits", [*(door.name for door in DOORS), THOSE_WHO_STAY])
def test_strangers_leave_nothing(found: Findings, visits: str) -> None:
    assert found.left[visits] == {}


@pytest.mark.server
@pytest.mark.parametrize("visits", [*(door.name for door in DOORS), THOSE_WHO_STAY])
def test_strangers_are_no_fault_in_the_log(found: Findings, visits: str) -> None:
    assert found.faults[visits] == []


@pytest.mark.server
def test_strangers_leave_no_stream_on_the_server(found: Findings, gateway: Gateway) -> None:
    assert found.answers
    # Those that other tests have left expire.
    wait_until(lambda: not metrics_of(gateway.metrics_url)["conch_open_streams"], 120)


def crowded(
    gateway: Gateway, door: Door, folder: Path, count: int, meanwhile: Callable[[], None] | None
) -> None:
    """Let a crowd visit a door; each is served or told that the server is busy."""
    result = Findings()
    with gateway_with(gateway.grpc_url, folder / "log") as places:
        battery = Battery(places, folder / "log", result)
        asyncio.run(battery.crowd(door, count, meanwhile))
    answers = result.answers[door.name, CROWD]
    assert [answer for answer, is_right in answers if not is_right] == []
    assert result.left[door.name] == {}
    assert result.faults[door.name] == []
    ((answer, is_right),) = result.honest[door.name]
    assert is_right, answer


@pytest.mark.server
@pytest.mark.nightly
@by_name
def test_a_crowd_is_served_or_told_that_the_server_is_busy(
    gateway: Gateway, door: Door, tmp_path: Path
) -> None:
    crowded(gateway, door, tmp_path, MANY, None)


@pytest.mark.server
@pytest.mark.nightly
@pytest.mark.parametrize("door", AT_WORK, ids=lambda door: door.name)
def test_a_component_that_dies_in_the_middle_costs_no_door_its_text(
    gateway: Gateway, door: Door, tmp_path: Path
) -> None:
    def kill() -> None:
        for pid, model in model_processes(listener_at(gateway.grpc_url)).items():
            if model == VICTIMS[door.takes]:
                os.kill(pid, signal.SIGKILL)

    crowded(gateway, door, tmp_path, FEW, kill)
