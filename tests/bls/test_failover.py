"""Calls of components that die and come back, or are loaded when needed, in virtual time."""

import asyncio
import itertools
from collections import Counter

import numpy as np
import pytest
from mortal_components import MortalComponents
from plain_recognizer import calls_on

from conch.bls.call import START_PATIENCE_S, ComponentAwayError, ComponentHungError, Deadline
from conch.bls.calls import Calls
from conch.bls.concurrency import RecordingTurns
from conch.bls.failover import (
    MAX_REPEATS,
    MAX_REPEATS_HUNG,
    PATIENCE_S,
    PAUSE_S,
    REMEMBER_S,
    SETTLE_AGAIN_S,
    Failover,
    OnDemand,
)
from conch.bls.metrics import CALLS, CALLS_REPEATED, Metrics
from conch.bls.runtime import Runtime
from conch.recognition import RecognitionConfig, own_components
from conch.wire.entry_points import ChunkPosition
from conch.wire.errors import ComponentError, DeadlineError, MissingModelError, OptionError

pytestmark = pytest.mark.virtual_time

AUDIO = {"waveform": np.ones(512, np.float32)}


def now() -> float:
    return asyncio.get_running_loop().time()


class Server:
    """Components, and requests that call their VAD."""

    def __init__(self, call_s: float = 0.01) -> None:
        self.components = MortalComponents(call_s)
        self.serve()

    def serve(self, *models: str) -> None:
        """Begin anew, with these models known to be served."""
        self.runtime = Runtime(
            RecognitionConfig(max_encoder_calls=8), own_components(), self.components, models
        )
        self.metrics = self.runtime.metrics

    def calls(self, deadline_ms: int = 0) -> Calls:
        return self.runtime.live_calls(self.components, "offline", Deadline(deadline_ms))

    async def call(
        self, model="vad", inputs=AUDIO, wanted=("speech_probs",), sequence=None
    ) -> float:
        """Call a component in a request of its own; return the second of the answer."""
        await self.calls()(model, inputs, wanted, sequence=sequence)
        return now()

    @property
    def repeated(self) -> dict[tuple[str, ...], float]:
        sums = self.metrics.drain()
        return {
            labels: value for (family, labels), value in sums.items() if family is CALLS_REPEATED
        }


@pytest.fixture
def server() -> Server:
    return Server()


async def test_a_call_whose_component_dies_is_repeated_once_it_is_back():
    server = Server(call_s=0.2)
    call = asyncio.create_task(server.call())
    await asyncio.sleep(0.1)
    server.components.kill("vad")
    await server.components.replace("vad")
    answered = await call
    assert 1.6 < answered < 2.2
    counted = server.metrics.drain()
    assert counted[CALLS, ("offline", "vad")] == 1, "one call, which took longer"
    assert counted[CALLS_REPEATED, ("vad", "ok")] == 1


async def test_calls_do_not_wait_in_the_queue_of_a_dead_process(server):
    calls = [asyncio.create_task(server.call()) for _ in range(20)]
    await asyncio.sleep(0)
    server.components.kill("vad")
    replaced = asyncio.create_task(server.components.replace("vad", found_s=1.5))
    await asyncio.sleep(1.2)
    # One call has failed by now; what comes later waits outside the queue.
    calls += [asyncio.create_task(server.call()) for _ in range(20)]
    await replaced
    answered = await asyncio.gather(*calls)
    assert max(answered) < 3.0
    assert server.repeated == {("vad", "ok"): 20, ("vad", "component"): 1}
    assert server.components.calls.count("vad") == 40 + 20 + 1, "one tries, and the others wait"


async def test_calls_of_a_dead_process_keep_no_turns_at_the_new_one():
    server = Server(call_s=0.4)
    server.serve("vad")

    def recording(number: int) -> list[asyncio.Task]:
        turns = RecordingTurns(server.runtime.limits)
        turns.begin((0.0, number), lambda: True)
        calls = server.runtime.calls(server.components, "offline", Deadline(), turns)
        return [asyncio.create_task(calls("vad", AUDIO, ["speech_probs"])) for _ in range(5)]

    asked = recording(0) + recording(1)
    await asyncio.sleep(0.005)
    server.components.kill("vad")
    await server.components.replace("vad")
    await asyncio.gather(*asked)
    # Back after 1.5 s; then two rounds. The dead process fails one of its eight calls a second.
    assert now() < 2.6


async def test_a_component_that_was_back_before_its_death_was_known_is_called_again_soon(server):
    await server.call()
    call = asyncio.create_task(server.call())
    await asyncio.sleep(0)
    server.components.kill("vad")
    await server.components.replace("vad", found_s=0.1, load_s=0.3)
    assert await call < 1.5


async def test_a_death_that_is_found_late_takes_a_second_repeat(server):
    await server.call()
    server.components.kill("vad")
    call = asyncio.create_task(server.call())
    await server.components.replace("vad", found_s=4.0)
    answered = await call
    assert 5.0 < answered < 5.5
    assert server.repeated == {("vad", "component"): 1, ("vad", "ok"): 1}


async def test_a_call_that_fails_behind_the_replacement_holds_nobody_up(server):
    await server.call()
    server.components.kill("vad")
    first = asyncio.create_task(server.call())
    await asyncio.sleep(0.9)
    second = asyncio.create_task(server.call())
    await asyncio.sleep(0.01)
    server.components.unload("vad")
    server.components.load("vad")
    await first
    assert await second > await first
    assert "vad" not in server.runtime.failover.away
    began = now()
    assert await server.call() - began < 0.1


async def test_a_model_that_was_never_there_is_missing_at_once(server):
    server.components.missing.add("rescorer")
    with pytest.raises(MissingModelError, match="rescorer is not loaded"):
        await server.call("rescorer")
    assert not await server.calls().is_loaded("rescorer")
    assert now() < 0.1


async def test_a_component_that_is_served_is_waited_for_by_who_never_called_it(server):
    """As of an entry point that was loaded again while the component was replaced."""
    server.serve("vad")
    server.components.unload("vad")
    call = asyncio.create_task(server.call())
    await asyncio.sleep(1.0)
    assert not call.done()
    server.components.load("vad")
    answered_at = await call
    assert answered_at < 1.5


async def test_a_model_that_is_unloaded_for_good_is_missing_after_the_wait(server):
    await server.call()
    server.components.unload("vad")
    with pytest.raises(ComponentAwayError, match="not back within 15 s; try again"):
        await server.call()
    waited = now()
    with pytest.raises(MissingModelError):
        await server.call()
    assert now() == waited
    assert PATIENCE_S <= waited < PATIENCE_S + 0.5


async def test_a_request_that_asks_what_is_loaded_waits_for_a_replacement(server):
    assert await server.calls().is_loaded("vad")
    server.components.unload("vad")
    loading = asyncio.create_task(server.components.replace("vad", found_s=0))
    found = await server.calls().is_loaded("vad")
    await loading
    answered = now()
    assert found
    assert 1.0 <= answered < 1.3


class Asked(MortalComponents):
    """Components of a server that takes its time to say whether it has one."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def is_loaded(self, model: str) -> bool:
        self.asked.append(model)
        await asyncio.sleep(0.1)
        return await super().is_loaded(model)


async def test_requests_share_the_question_whether_the_server_has_a_component():
    server = Asked()
    server.missing.add("neural_rescorer")
    failover = Failover(server, Metrics())
    for wait_s in (0.0, REMEMBER_S / 4, REMEMBER_S):
        await asyncio.sleep(wait_s)
        for model, is_there in (("vad", True), ("neural_rescorer", False)):
            asks = [asyncio.create_task(failover.is_loaded(model)) for _ in range(40)]
            asks.pop().cancel()
            assert await asyncio.gather(*asks) == [is_there] * 39
    asked = server.asked
    assert sorted(asked) == ["neural_rescorer"] * 2 + ["vad"] * 2


async def test_no_question_is_kept_for_a_name_that_somebody_made_up():
    server = Asked()
    failover = Failover(server, Metrics())
    for number in range(50):
        server.missing.add(f"name {number}")
        assert not await failover.is_loaded(f"name {number}", loads=False)
        await asyncio.sleep(REMEMBER_S / 5)
        assert len(failover._probes) <= 5


async def test_a_call_hangs_twice_at_most():
    class Hanging(MortalComponents):
        async def call(self, call):
            model = call.model
            await asyncio.sleep(5)
            self.calls.append(model)
            asyncio.get_running_loop().create_task(self.replace(model))
            raise ComponentHungError(f"{model} has not answered a call for 5.0 s")

    components = Hanging()
    calls = calls_on(components)
    with pytest.raises(ComponentError, match=r"^vad has not answered"):
        await calls("vad", AUDIO, ("speech_probs",))
    assert components.calls == ["vad"] * (1 + MAX_REPEATS_HUNG)


@pytest.mark.parametrize("error", [ComponentError("out of order"), OptionError("no such language")])
async def test_what_a_component_answers_itself_is_not_repeated(server, error):
    server.components.failing, server.components.failure = "vad", error
    with pytest.raises(type(error), match=str(error)):
        await server.call()
    made = len(server.components.calls)
    assert made == 1
    assert not server.repeated


async def test_a_call_that_kills_is_made_three_times_at_most(server):
    async def die(model):
        server.components.kill(model)
        await server.components.replace(model)
        raise ComponentAwayError(f"the process of {model} has died")

    server.components.before = die
    with pytest.raises(ComponentAwayError, match="the process of vad has died"):
        await server.call()
    made = len(server.components.calls)
    assert made == 1 + MAX_REPEATS
    assert server.repeated == {("vad", "component"): MAX_REPEATS}


async def test_a_deadline_holds_while_a_component_is_away(server):
    await server.call()
    server.components.unload("vad")
    began = now()
    calls = server.calls(2000)
    with pytest.raises(DeadlineError, match="deadline_ms of 2000 ran out in"):
        async with calls.limited():
            await calls("vad", AUDIO, ["speech_probs"])
    server.components.load("vad")
    # The others' wait goes on.
    await server.call()
    assert 2.0 <= now() - began < 2.5


async def test_a_request_that_is_given_up_is_cancelled_and_not_repeated():
    server = Server(call_s=0.2)
    call = asyncio.create_task(server.call())
    await asyncio.sleep(0.1)
    server.components.kill("vad")
    await asyncio.sleep(0.3)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    found = "vad" in server.runtime.failover.away
    assert not found
    assert not server.repeated


async def test_one_process_of_two_that_stays_dead_does_not_make_all_calls_wait_each_time(server):
    """Nobody replaces it: a server that was started without the launcher."""
    numbers = itertools.count()

    async def fail_every_tenth(model):
        if next(numbers) % 10 == 9:
            await asyncio.sleep(1)
            raise ComponentAwayError(f"the process of {model} has died")

    server.components.before = fail_every_tenth
    assert [await server.call() for _ in range(20)][-1] < 2 * (1 + SETTLE_AGAIN_S)


STREAM = {"waveform": np.ones(512, np.float32)}


def encode(server, *, starts=False):
    sequence = ChunkPosition("a", starts=starts, ends=False)
    return server.call("ctc_streaming_encoder", STREAM, ["log_probs"], sequence)


async def test_a_call_in_a_stream_is_not_repeated_and_its_start_is(server):
    await encode(server, starts=True)
    server.components.kill("ctc_streaming_encoder")
    replaced = asyncio.create_task(server.components.replace("ctc_streaming_encoder", found_s=2))
    with pytest.raises(ComponentAwayError, match="has died: START the stream again"):
        await encode(server)
    failed = now()
    with pytest.raises(ComponentAwayError, match="is being replaced: START the stream again"):
        await encode(server)
    assert now() == failed
    await encode(server, starts=True)
    await replaced
    answered = now()
    assert failed < 1.2
    assert 3.0 <= answered < 4.0


async def test_the_start_of_a_stream_waits_for_a_place_no_longer_than_a_few_seconds(server):
    for deadline_ms in (0, 60_000, 2_000):
        sequence = ChunkPosition("a", starts=True, ends=False)
        await server.calls(deadline_ms)(
            "ctc_streaming_encoder", STREAM, ["log_probs"], sequence=sequence
        )
    longest = server.components.timeouts_s
    assert longest[:2] == [START_PATIENCE_S, START_PATIENCE_S]
    assert 1.9 < longest[2] <= 2.0


LOAD_S = 2.0
LATER = ("moonshine_encoder", "rescorer")
TEXTS = {"hypotheses": np.array(["a"], object)}


class LoadingServer(Server):
    """One whose components are in part loaded later; those of `broken` never are."""

    def __init__(self, *later: str) -> None:
        super().__init__()
        self.components.missing.update(later)
        self.loads: Counter[str] = Counter()
        self.broken: set[str] = set()
        on_demand = OnDemand(later, self.components.is_loaded, self.load)
        self.runtime = Runtime(
            RecognitionConfig(), own_components(), self.components, ("vad",), on_demand=on_demand
        )

    async def load(self, model: str) -> None:
        self.loads[model] += 1
        await asyncio.sleep(LOAD_S)
        if model in self.broken:
            raise ComponentError("no weights in /srv/lm")
        self.components.load(model)

    async def rescored(self) -> float:
        """Call the rescorer in a request of its own; return the second of the answer."""
        await self.calls()("rescorer", TEXTS, ("lm_scores",))
        return now()


async def test_all_requests_wait_for_one_load():
    server = LoadingServer(*LATER)
    answered = await asyncio.gather(*(server.rescored() for _ in range(8)))
    assert LOAD_S <= min(answered) <= max(answered) < LOAD_S + 0.1
    began = now()
    assert await server.rescored() < began + 0.1
    assert server.loads == {"rescorer": 1}
    assert server.runtime.failover.on_demand == [*LATER]


async def test_what_a_request_needs_is_loaded_at_the_same_time():
    server = LoadingServer(*LATER)
    await server.calls().need(("vad", *LATER, "someones_own"))
    assert now() == LOAD_S
    assert server.loads == dict.fromkeys(LATER, 1)
    assert await server.calls().is_loaded("rescorer")
    assert now() == LOAD_S


async def test_what_is_loaded_is_not_loaded_again():
    """As after `speech` was replaced; Triton would end the processes that others call."""
    server = LoadingServer("rescorer")
    server.components.load("rescorer")
    assert await server.calls().is_loaded("rescorer")
    await server.rescored()
    assert not server.loads


async def test_an_extra_is_no_reason_to_load_a_component():
    server = LoadingServer("rescorer")
    calls = server.calls()
    assert not await calls.has("rescorer")
    assert not server.loads
    await calls.need(("rescorer",))
    assert await calls.has("rescorer")


async def test_a_model_that_is_not_loaded_on_demand_is_missing():
    server = LoadingServer("moonshine_encoder")
    server.components.missing.add("rescorer")
    assert not await server.calls().is_loaded("rescorer")
    with pytest.raises(MissingModelError, match="rescorer is not loaded"):
        await server.rescored()
    assert not server.loads


async def test_a_failed_load_is_named_and_tried_again_after_a_pause():
    server = LoadingServer(*LATER)
    server.broken.add("rescorer")
    named = r"^model rescorer cannot be loaded: no weights in /srv/lm; see the server's log"
    # Both what asks and what calls.
    asks = (server.calls().is_loaded("rescorer"), server.rescored(), server.rescored())
    for error in await asyncio.gather(*asks, return_exceptions=True):
        with pytest.raises(ComponentError, match=named):
            raise error
    await server.calls().need(("moonshine_encoder",))
    await asyncio.sleep(LOAD_S + PAUSE_S - now() - 0.1)
    with pytest.raises(ComponentError, match=named):
        await server.rescored()
    assert server.loads["rescorer"] == 1
    await asyncio.sleep(0.2)
    server.broken.clear()
    await server.rescored()
    assert server.loads["rescorer"] == 2


async def test_a_request_that_is_given_up_leaves_the_load_to_the_others():
    server = LoadingServer("rescorer")

    async def limited() -> None:
        calls = server.calls(deadline_ms=500)
        async with calls.limited():
            await calls.need(["rescorer"])

    first, other = asyncio.create_task(limited()), asyncio.create_task(server.rescored())
    with pytest.raises(DeadlineError, match="500 ran out before the first call"):
        await first
    assert now() < LOAD_S
    assert LOAD_S <= await other < LOAD_S + 0.1
    assert server.loads["rescorer"] == 1


async def test_one_that_has_died_is_waited_for_and_not_loaded_here():
    server = LoadingServer("rescorer")
    await server.rescored()
    server.components.kill("rescorer")
    healing = asyncio.create_task(server.components.replace("rescorer"))
    await server.rescored()
    await healing
    assert server.loads["rescorer"] == 1
    # Unless it stays away: somebody has unloaded it.
    server.components.unload("rescorer")
    with pytest.raises(ComponentError, match=f"not back within {PATIENCE_S:g} s"):
        await server.rescored()
    await server.rescored()
    assert server.loads["rescorer"] == 2
