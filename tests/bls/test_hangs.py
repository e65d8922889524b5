"""Calls that a component will never answer, on a clock of the test's own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from plain_processes import PlainProcesses
from waiting import wait_until

from conch.bls.call import START_PATIENCE_S, Call, ComponentAwayError, ComponentHungError
from conch.bls.hangs import (
    PERIOD_S,
    UNKNOWN_S,
    HangWatch,
    ModelProcesses,
    Speed,
    ThreadTimes,
    boot_time_s,
    starved_s,
)
from conch.bls.metrics import HANGS, Metrics
from conch.families.family import Traits
from conch.processes import STUB
from conch.recognition import own_components
from conch.wire.entry_points import ChunkPosition

LEAST_S = 5.0


class Server:
    """A watch, its clock, and calls that the test begins and answers."""

    def __init__(self) -> None:
        self.now = 100.0
        self.processes, self.metrics = PlainProcesses(), Metrics()
        self.watch = HangWatch(
            self.processes, own_components(), LEAST_S, self.metrics, lambda: self.now
        )
        self.given_up: list[tuple[str, ComponentAwayError]] = []
        self._in_flight: list[ExitStack] = []

    def begin(
        self, name: str, model: str = "vad", size: int = 100, sequence: ChunkPosition | None = None
    ):
        """Begin a call, and return what answers it."""
        stack = ExitStack()
        self._in_flight.append(stack)

        def give_up(error: ComponentAwayError) -> None:
            self.given_up.append((name, error))

        stack.enter_context(
            self.watch.calling(Call(model, {}, (), sequence=sequence), size, give_up)
        )
        return stack.close

    def answered(self, took_s: float, model: str = "vad", size: int = 100) -> None:
        answer = self.begin("earlier", model, size)
        self.now += took_s
        answer()

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / PERIOD_S)):
            self.now += PERIOD_S
            self.watch.look()

    @property
    def given_up_names(self) -> list[str]:
        return [name for name, _ in self.given_up]


@pytest.fixture
def server() -> Server:
    made = Server()
    made.answered(0.1)
    return made


def test_a_call_without_an_answer_ends_its_component_and_no_other(server):
    server.begin("vad")
    answer_other = server.begin("other", model="ngram_rescorer")
    server.pass_time(LEAST_S)
    assert not server.given_up
    server.pass_time(2 * PERIOD_S)
    ((name, error),) = server.given_up
    assert (name, type(error)) == ("vad", ComponentHungError)
    assert str(error).startswith("vad has not answered a call for 5")
    assert server.processes.killed == ["vad"]
    assert server.metrics.drain()[HANGS, ("vad",)] == 1
    answer_other()


def test_calls_behind_it_are_given_up_as_those_of_a_dead_process(server):
    server.begin("first")
    server.begin("second")
    server.pass_time(LEAST_S + 2 * PERIOD_S)
    assert [(name, type(error)) for name, error in server.given_up] == [
        ("first", ComponentHungError),
        ("second", ComponentAwayError),
    ]


def test_one_instance_of_two_that_hangs_is_found_while_the_other_answers(server):
    server.begin("hung")
    for _ in range(round(LEAST_S / PERIOD_S)):
        answer = server.begin("other")
        server.pass_time(PERIOD_S)
        answer()
        assert not server.given_up
    server.pass_time(LEAST_S)
    assert server.given_up_names == ["hung"]


def test_a_stream_that_others_overtake_is_not_taken_for_a_hang(server):
    server.begin("overtaken", sequence=ChunkPosition("a", starts=False, ends=False))
    for _ in range(round(3 * LEAST_S / PERIOD_S)):
        answer = server.begin("other", sequence=ChunkPosition("b", starts=False, ends=False))
        server.pass_time(PERIOD_S)
        answer()
    assert not server.given_up
    server.pass_time(20 * LEAST_S)
    assert server.given_up_names == ["overtaken"]


def test_rows_that_are_in_flight_together_share_the_time(server):
    model = "moonshine_decoder"
    server.answered(0.5, model)
    alone_s = server.watch.limit_s(model, 100)
    for number in range(3):
        server.begin(f"row {number}", model)
    server.pass_time(2 * alone_s)
    assert server.given_up_names == []
    server.pass_time(1.5 * alone_s)
    assert server.given_up_names == ["row 0", "row 1", "row 2"]


def test_the_time_of_a_call_begins_when_those_before_it_are_answered(server):
    answers = [server.begin(str(number)) for number in range(8)]
    for answer in answers:
        server.pass_time(LEAST_S - PERIOD_S)
        answer()
    assert not server.given_up


def test_time_in_which_the_component_waits_for_a_core_does_not_count(server):
    server.begin("slow")
    server.processes.starved["vad"] = 0.9 * PERIOD_S
    server.pass_time(5 * LEAST_S)
    assert not server.given_up
    server.processes.starved.clear()
    server.pass_time(LEAST_S)
    assert server.given_up_names == ["slow"]


def test_time_in_which_the_watch_itself_did_not_run_does_not_count(server):
    server.begin("slow")
    server.pass_time(1)
    server.now += 3600
    server.watch.look()
    assert not server.given_up


def test_the_limit_follows_from_the_components_own_speed(server):
    server.answered(2.0, "attention_encoder")
    server.answered(2.0, "attention_decoder")
    assert server.watch.limit_s("attention_encoder", 100) == pytest.approx(Traits().hang_factor * 2)
    # Its work hangs on the text.
    assert server.watch.limit_s("attention_decoder", 100) == pytest.approx(120)
    assert server.watch.limit_s("vad", 100) == LEAST_S
    assert server.watch.limit_s("neural_rescorer", 100) == UNKNOWN_S


def test_the_start_of_a_stream_may_wait_for_a_place_too(server):
    server.begin("START", sequence=ChunkPosition("a", starts=True, ends=False))
    server.pass_time(LEAST_S + START_PATIENCE_S - 1)
    assert not server.given_up
    server.pass_time(2)
    assert server.given_up_names == ["START"]


def test_a_call_of_before_a_replacement_is_given_up_and_ends_nothing(server):
    server.begin("old")
    server.begin("as old")
    server.processes.began = server.now + 1
    server.now += 2
    server.begin("new")
    server.pass_time(LEAST_S + 2 * PERIOD_S)
    assert [(name, type(error)) for name, error in server.given_up] == [
        ("old", ComponentAwayError),
        ("as old", ComponentAwayError),
    ]
    assert not server.processes.killed


def test_a_component_that_hangs_again_and_again_has_more_time_each_time(server):
    for limit_s in (LEAST_S, 2 * LEAST_S, 4 * LEAST_S):
        assert server.watch.limit_s("vad", 100) == limit_s
        server.begin("slow")
        server.pass_time(limit_s + 2 * PERIOD_S)
    assert server.processes.killed == ["vad"] * 3
    server.answered(0.1)
    assert server.watch.limit_s("vad", 100) == LEAST_S


def test_an_answer_after_all_is_taken_in_silence(server):
    answer = server.begin("late")
    server.pass_time(LEAST_S + 2 * PERIOD_S)
    answer()
    server.begin("next")
    server.pass_time(LEAST_S)
    assert server.given_up_names == ["late"]


@pytest.mark.parametrize(("size", "expected_s"), [(0, 1.0), (100, 1.0), (1000, 10.0)])
def test_a_longer_call_may_take_longer(size, expected_s):
    speed = Speed()
    for _ in range(200):
        speed.add(1.0, 100)
    assert speed.expected_s(size) == pytest.approx(expected_s)


def test_a_speed_follows_changes():
    speed = Speed()
    for seconds in [0.1] * 500 + [10.0] * 200:
        speed.add(seconds, 100)
    assert speed.expected_s(100) > 9


SLEEP = "import time; time.sleep(600)"
BURN = "while True: pass"


@pytest.fixture
def start(tmp_path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start programs under the name of Triton's stub, and end them."""
    # A link would keep the interpreter's own name in /proc, but not in the command line.
    stub = tmp_path / STUB
    os.symlink(shutil.which(sys.executable) or sys.executable, stub)
    started = []

    def start(model: str, code: str) -> subprocess.Popen[bytes]:
        path = tmp_path / model / "1" / "model.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
        process = subprocess.Popen([str(stub), str(path)])
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_only_older_processes_of_the_model_are_ended(start):
    vad, other = start("vad", SLEEP), start("encoder", SLEEP)
    processes = ModelProcesses(os.getpid())
    before = boot_time_s() - 3600
    assert processes.kill("vad", before) == 0
    (began,) = processes.started("vad")
    assert 0 <= boot_time_s() - began < 60
    assert processes.kill("vad", began + 1) == 1
    assert vad.wait(10) < 0
    assert other.poll() is None
    assert processes.kill("vad", began + 1) == 0


def test_nothing_is_ended_that_is_no_child_of_the_server(start):
    start("vad", SLEEP)
    processes = ModelProcesses(os.getppid())
    assert processes.started("vad") == []
    assert processes.kill("vad", boot_time_s() + 1) == 0


def test_a_process_that_sleeps_waits_for_no_core(start):
    start("vad", SLEEP)
    processes = ModelProcesses(os.getpid())
    processes.started("vad")
    processes.starved_s("vad")

    def starved_s() -> float:
        before = boot_time_s()
        wait_until(lambda: boot_time_s() - before > 0.5)
        return processes.starved_s("vad")

    wait_until(lambda: starved_s() < 0.1)  # its start is over


def test_a_process_that_shares_a_core_with_others_waits_for_it(start):
    shared = min(os.sched_getaffinity(0))
    burning = [start(name, BURN) for name in ("vad", "a", "b", "c", "d")]
    for process in burning:
        os.sched_setaffinity(process.pid, {shared})
    os.setpriority(os.PRIO_PROCESS, burning[0].pid, min(19, os.nice(0) + 10))
    processes = ModelProcesses(os.getpid())
    waited = before = passed = 0.0

    def has_waited() -> bool:
        nonlocal waited, before, passed
        waited += processes.starved_s("vad")
        now = boot_time_s()
        before = before or now
        passed = now - before
        return passed > 2

    wait_until(has_waited)
    assert waited > 0.5 * passed


@pytest.mark.parametrize(
    ("after", "expected_s"),
    [
        (ThreadTimes(False, 1.0, 5.0), 0.0),
        (ThreadTimes(False, 1.0, 5.4), 0.4),
        (ThreadTimes(True, 1.9, 5.0), 0.1),
        (ThreadTimes(True, 2.0, 5.0), 0.0),
        (ThreadTimes(True, 1.0, 9.0), 1.0),
    ],
)
def test_the_longest_wait_counts_also_while_it_lasts(after, expected_s):
    before = {7: ThreadTimes(True, 1.0, 5.0), 8: ThreadTimes(False, 3.0, 0.0)}
    others = {8: ThreadTimes(False, 3.0, 0.0), 9: ThreadTimes(True, 0.0, 50.0)}
    assert starved_s(before, {7: after, **others}, 1.0) == pytest.approx(expected_s)
