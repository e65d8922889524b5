"""When models are loaded again, on a machine of plain Python."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from conch.launcher.healing import Look
from conch.launcher.keeper import HEALTHY_S, LIST_S, MOST_FAILURES, Keeper
from conch.wire.errors import ServerError

SERVER = 1


class Machine:
    """A server with one process for each model: its processes, and its endpoints."""

    def __init__(self, *models: str) -> None:
        self.now = 1000.0
        self.first = dict(enumerate(models, 10))
        self.processes = dict(self.first)
        self.states = dict.fromkeys([SERVER, *self.processes], "S")
        self.ready = set(models)
        self.calls: list[str] = []
        self.cut: list[Collection[int]] = []
        self.refused: set[str] = set()
        self.unanswered: set[str] = set()
        self.heals: Counter[str] = Counter()
        self.may_cut = True
        self.http_port, self.grpc_port = 1000, 1001
        self.lingering = False
        """Whether the processes of an unloaded model live on for a while."""

    def of(self, model: str) -> int:
        return next(process for process, name in self.processes.items() if name == model)

    def stubs(self) -> dict[int, str]:
        return {process: name for process, name in self.processes.items() if self.lives(process)}

    def look_at(self, processes: Mapping[int, str]) -> dict[int, Look]:
        return {item: Look(name, self.states.get(item, "")) for item, name in processes.items()}

    def look_at_server(self) -> dict[int, Look]:
        return {SERVER: Look("tritonserver", self.states[SERVER])}

    def lives(self, process: int) -> bool:
        return self.states.get(process, "Z") != "Z"

    def ready_models(self) -> tuple[str, ...]:
        return tuple(self.ready)

    def administer(self, model: str, action: str, timeout_s: float) -> bool:
        self.calls.append(f"{action} {model}")
        if action in self.refused:
            raise ServerError(f"{action}: it does not work")
        if action == "unload":
            self.ready.discard(model)
            if not self.lingering:
                for process in [item for item, name in self.processes.items() if name == model]:
                    del self.processes[process]
        else:
            self.ready.add(model)
            process = max([SERVER, *self.states]) + 10
            self.processes[process] = model
            self.states[process] = "S"
        return action not in self.unanswered

    def cut_connections(self, ports: Collection[int]) -> None:
        if not self.may_cut:
            raise PermissionError(1, "Operation not permitted")
        self.cut.append(ports)

    def kill(self, process: int) -> None:
        self.states[process] = "Z"


@pytest.fixture
def machine() -> Machine:
    return Machine("vad", "speech")


def looker(machine: Any) -> Callable[[float], None]:
    """Return a look of one keeper at the machine, some seconds after the last one."""
    keeper = Keeper(
        machine, machine, ("speech",), 10.0, machine.heals, machine.first, lambda: machine.now
    )

    def look(later_s: float = 0.1) -> None:
        machine.now += later_s
        keeper.look()
        for heal in list(keeper._healing.values()):
            heal.result()

    return look


@pytest.fixture
def look(machine: Machine) -> Callable[[float], None]:
    return looker(machine)


def test_nothing_is_done_to_the_healthy(machine, look):
    for _ in range(100):
        look()
    assert machine.calls == []


def test_a_keeper_begins_without_file_descriptors(machine, monkeypatch):
    with monkeypatch.context() as without:
        without.setattr(machine, "stubs", partial(open, "/nowhere"))
        look = looker(machine)
        with pytest.raises(OSError, match="nowhere"):
            look()
    machine.states[machine.of("vad")] = "Z"
    look()
    assert machine.heals == {"vad": 1}


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_dead_model_is_unloaded_and_loaded_once(machine, look, is_answered):
    """Also if the answer was cut off: the load counts when the model is ready."""
    if not is_answered:
        machine.unanswered.add("load")
    machine.states[machine.of("vad")] = "Z"
    for _ in range(20):
        look()
    assert machine.calls == ["unload vad", "load vad"]
    assert machine.heals == {"vad": 1}
    assert machine.cut == []


def test_processes_that_end_after_their_replacements_are_there_are_not_missed(machine, look):
    machine.lingering = True
    machine.processes[20], machine.states[20] = "vad", "S"
    machine.states[machine.of("vad")] = "Z"
    look(LIST_S)
    look(0.1)
    machine.states[20] = "Z"
    for _ in range(20):
        look(HEALTHY_S)
    assert machine.calls == ["unload vad", "load vad"]
    machine.states[max(machine.processes)] = "Z"  # a new one
    look(0.1)
    assert machine.heals == {"vad": 2}


def test_a_process_that_was_replaced_and_then_freezes_is_killed(machine, look):
    machine.lingering = True
    machine.processes[20], machine.states[20] = "vad", "S"
    machine.states[machine.of("vad")] = "Z"
    look(LIST_S)
    machine.states[20] = "T"
    look(LIST_S)
    look(1.0)
    assert machine.states[20] == "Z"
    assert machine.heals == {"vad": 1}


def test_a_frozen_process_does_not_wait_for_the_next_attempt(machine, look):
    for heals in (1, 2, 3):
        machine.states[machine.of("vad")] = "Z"
        while machine.heals["vad"] < heals:
            look()
    process = machine.of("vad")
    machine.states[process] = "T"
    look()
    look(1.0)
    assert machine.states[process] == "Z", "Triton aborts when it has waited for 12 s"
    assert machine.heals == {"vad": 3}


def test_a_model_whose_configuration_asks_for_fewer_instances_is_healed_once_more(machine):
    machine.first[20] = machine.processes[20] = "vad"
    machine.states[20] = "S"
    look = looker(machine)
    machine.states[20] = "Z"
    for _ in range(20):
        look(HEALTHY_S)
    assert machine.heals == {"vad": 2}, "one of two may have died unseen, but only once"


def test_a_process_that_died_before_the_first_look_is_missed(machine):
    machine.states[machine.of("vad")] = "Z"
    look = looker(machine)
    for _ in range(20):
        look()
    assert machine.calls == ["unload vad", "load vad"]


def test_connections_are_cut_when_an_entry_point_has_died(machine, look):
    machine.states[machine.of("speech")] = ""
    look()
    assert machine.calls == ["unload speech", "load speech"]
    assert machine.cut == [(1000, 1001)]


def test_without_the_right_to_cut_only_a_new_server_helps(machine, look):
    machine.may_cut = False
    machine.states[machine.of("speech")] = "Z"
    look()
    with pytest.raises(ServerError, match="model speech has died and cannot be loaded again"):
        look()


def test_a_frozen_process_is_killed_first(machine, look):
    process = machine.of("vad")
    machine.states[process] = "T"
    look()
    look(0.5)
    assert machine.calls == []
    look(0.5)
    assert machine.states[process] == "Z"
    assert machine.calls == ["unload vad", "load vad"]


def test_a_model_that_keeps_dying_is_healed_ever_more_rarely(machine, look):
    healed_at = []
    for _ in range(200):
        if "vad" in machine.ready:
            machine.states[machine.of("vad")] = "Z"
        before = machine.heals["vad"]
        look()
        if machine.heals["vad"] > before:
            healed_at.append(machine.now)
    gaps = [later - earlier for earlier, later in pairwise(healed_at)]
    assert gaps == pytest.approx([1, 2, 4, 8], abs=0.3)
    look(16 + HEALTHY_S)
    machine.states[machine.of("vad")] = "Z"
    look(1.0)
    assert machine.heals["vad"] == len(healed_at) + 2, "it was healthy for a while"


def test_a_model_that_cannot_be_loaded_ends_the_server(machine, look):
    machine.refused.add("load")
    machine.states[machine.of("vad")] = "Z"
    with pytest.raises(ServerError, match="model vad has died and cannot be loaded again"):
        for _ in range(100):
            look()
    assert machine.calls.count("load vad") == MOST_FAILURES


def test_an_unload_without_an_answer_is_tried_again(machine, look):
    machine.unanswered.add("unload")
    machine.states[machine.of("vad")] = "Z"
    look()
    machine.unanswered.clear()
    for _ in range(20):
        look()
    assert machine.calls == ["unload vad", "unload vad", "load vad"]


def test_a_model_that_somebody_has_unloaded_stays_so(machine, look):
    process = machine.of("vad")
    machine.ready.discard("vad")
    machine.states[process] = ""
    for _ in range(20):
        look()
    assert machine.calls == []


def test_a_frozen_server_is_beyond_healing(machine, look):
    machine.states[SERVER] = "T"
    look()
    with pytest.raises(ServerError, match="tritonserver is frozen"):
        look(1.0)
