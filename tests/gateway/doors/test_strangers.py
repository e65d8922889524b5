"""Every door under every stranger, on a real server; honest clients beside them get their text.

A door that is declared is tested here without a new test, once it has a client.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from gateways import Gateway
from metrics import metrics_of
from waiting import wait_until

from conch.gateway.doors import DOORS, Door
from lab.chaos.answers import Answer
from lab.chaos.visits.battery import Battery, Found
from lab.chaos.visits.behaviours import QUICK, SLOW, Behaviour
from lab.chaos.visits.clients import client_of
from lab.chaos.visits.places import gateway_with

STAYING = "those who stay"
IMPATIENT: dict[str, Any] = {
    "times": {"keep_alive_s": 2, "idle_s": 1.5, "settings_s": 1.5, "ping_s": 4, "send_s": 2},
    "max_session_s": 12.0,
}
"""Limits of a gateway that does not wait long for those who stay."""
FALLS: dict[tuple[str, str], str] = {}
"""What does not hold today, by door and behaviour, and why."""

by_name = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)


@by_name
def test_every_door_has_a_client(door: Door) -> None:
    assert callable(client_of(door))


@pytest.fixture(scope="module")
def found(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """Return what came of all visits: those of one door at once, and then all who stay."""
    folder = tmp_path_factory.mktemp("strangers")
    with gateway_with(gateway.grpc_url, folder / "quick.log") as places:
        battery = Battery(places, folder / "quick.log")

        async def visit_each() -> None:
            for door in DOORS:
                await battery.quick(door)

        asyncio.run(visit_each())
    with gateway_with(gateway.grpc_url, folder / "slow.log", **IMPATIENT) as places:
        staying = Battery(places, folder / "slow.log")
        staying.found = battery.found
        asyncio.run(staying.slow(DOORS, STAYING))
    return battery.found


def cases() -> Iterator[Any]:
    for door in DOORS:
        for behaviour in (*QUICK, *SLOW):
            why = FALLS.get((door.name, behaviour.name))
            marks = pytest.mark.xfail(reason=why, strict=True) if why else ()
            yield pytest.param(door, behaviour, marks=marks, id=f"{door.name}, {behaviour.name}")


@pytest.mark.server
@pytest.mark.parametrize(("door", "behaviour"), [*cases()])
def test_a_stranger_gets_a_right_answer(found: Found, door: Door, behaviour: Behaviour) -> None:
    answers = found.answers[door.name, behaviour.name]
    assert [str(answer) for answer, is_right in answers if not is_right] == []


@pytest.mark.server
@by_name
def test_an_honest_client_beside_strangers_is_served(found: Found, door: Door) -> None:
    beside: list[tuple[Answer, Answer]] = found.honest[door.name]
    assert [given for given, alone in beside if given != alone] == []
    assert len(beside) == 2


@pytest.mark.server
@pytest.mark.parametrize("visits", [*(door.name for door in DOORS), STAYING])
def test_strangers_leave_nothing(found: Found, visits: str) -> None:
    assert found.left[visits] == {}


@pytest.mark.server
@pytest.mark.parametrize("visits", [*(door.name for door in DOORS), STAYING])
def test_strangers_are_no_fault_in_the_log(found: Found, visits: str) -> None:
    assert found.faults[visits] == []


@pytest.mark.server
def test_strangers_leave_no_stream_on_the_server(found: Found, gateway: Gateway) -> None:
    assert found.answers
    # Those that other tests have left expire.
    wait_until(lambda: not metrics_of(gateway.metrics_url)["conch_open_streams"], 120)
