"""Calls that a component will never answer, on a clock of the test's own."""

from contextlib import ExitStack

import pytest
from plain_processes import PlainProcesses

from conch.bls.call import START_PATIENCE_S, Call, ComponentAwayError, ComponentHungError
from conch.bls.config import HANG_FACTOR
from conch.bls.hangs import PERIOD_S, UNKNOWN_S, HangWatch, Speed
from conch.bls.metrics import HANGS, Metrics
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
    assert server.watch.limit_s("attention_encoder", 100) == pytest.approx(HANG_FACTOR * 2)
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
