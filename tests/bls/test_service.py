"""A service of its own on the core: what counts words, in 30 lines."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from plain_components import HostTensor
from waiting import wait_until

from conch.bls.config import BlsConfig
from conch.bls.host import Host
from conch.bls.metrics import CALLS, Metric
from conch.bls.runtime import Runtime
from conch.bls.service import Answer, Message
from conch.families.family import Traits
from conch.wire.access import fields_of
from conch.wire.errors import InvalidRequestError, OverloadedError

COUNTED = Metric("words", "Words counted", kind="gauge")


class WordCounts:
    """Counts the words of texts, each in a call of the component `counter`."""

    def __init__(self, config: BlsConfig, runtime: Runtime) -> None:
        self.runtime, self.counted = runtime, 0
        self.gauges = {COUNTED: lambda: float(self.counted)}

    def parse(self, message: Message) -> list[bytes]:
        texts = message.read_inputs().get("TEXT")
        if texts is None:
            raise InvalidRequestError("send TEXT")
        return texts.ravel().tolist()

    async def run(self, request: list[bytes], components, record) -> AsyncGenerator[Answer, None]:
        calls = self.runtime.live_calls(components, "words")
        for text in request:
            inputs = {"text": np.array([text], dtype=np.object_)}
            number = (await calls("counter", inputs, ("words",)))["words"].numpy()
            self.counted += int(number.item())
            yield {"WORDS": number[np.newaxis]}
        record.called(calls.stages)

    async def close(self, timeout_s: float) -> None:
        self.counted = 0


class Counter:
    """The component; a text `wait` is never answered."""

    async def call(self, call):
        (text,) = call.inputs["text"]
        if text == b"wait":
            await asyncio.Event().wait()
        return {"words": HostTensor(np.array([len(text.split())]))}

    async def is_loaded(self, model):
        return True

    def give_up(self, model):
        pass

    def close(self, failure):
        pass


class Client:
    def __init__(self) -> None:
        self.got: list = []
        self.has_ended = asyncio.Event()
        self.loop = asyncio.get_running_loop()

    def is_cancelled(self) -> bool:
        return False

    def send(self, answer) -> None:
        self.got.append(answer["RESULT" if "RESULT" in answer else "WORDS"].item())

    def fail(self, error) -> None:
        self.got.append(error)

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self.has_ended.set)


class Running:
    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self.runtime = Runtime(BlsConfig(), {"counter": Traits()}, Counter())
        self.service = WordCounts(BlsConfig(), self.runtime)
        self.host = Host(self.service, self.runtime, lambda *request: Counter(), threads)

    async def ask(self, *texts: bytes, **parameters) -> list:
        client = self.begin(*texts, **parameters)
        await client.has_ended.wait()
        return client.got

    def begin(self, *texts: bytes, **parameters) -> Client:
        client = Client()
        tensors = {"TEXT": np.array([texts], dtype=np.object_)} if texts else {}
        message = Message(
            model="words", read_inputs=lambda: tensors, outputs=("WORDS",), parameters=parameters
        )
        self.host.start(message, client)
        return client


@pytest.fixture
def running():
    with ThreadPoolExecutor(1) as threads:
        running = Running(threads)
        yield running
        running.host.close(5.0, lambda: None)


def test_a_service_has_answers_calls_metrics_and_a_line_in_the_log(running, caplog):
    def lines() -> list[dict]:
        return [dict(fields) for record in caplog.records if (fields := fields_of(record))]

    with caplog.at_level(logging.INFO):
        assert asyncio.run(running.ask(b"one", b"two words", b"")) == [1, 2, 0]
        wait_until(lambda: lines())
    assert running.service.gauges[COUNTED]() == 3
    assert running.runtime.metrics.drain()[CALLS, ("words", "counter")] == 3
    (line,) = lines()
    assert (line["model"], line["outcome"]) == ("words", "ok")
    assert (line["path"], line["calls"]) == (["counter"], 3)


async def test_a_wrong_request_and_a_defect_fail_alone(running):
    wrong, right = await asyncio.gather(running.ask(), running.ask(b"two words"))
    assert ([str(error) for error in wrong], right) == (["send TEXT"], [2])


async def test_a_request_ends_even_if_its_span_cannot(running, monkeypatch):
    def fail(self, failure):
        raise RuntimeError("no thread for spans")

    monkeypatch.setattr(Counter, "close", fail)
    assert await running.ask(b"two words") == [2]


async def test_the_health_of_a_server_needs_no_service(running):
    (text,) = await running.ask(health=True)
    assert json.loads(text) == {"away": [], "on_demand": [], "models": [], "voices": []}


async def test_what_runs_is_cancelled_at_the_end():
    with ThreadPoolExecutor(1) as threads:
        running = Running(threads)
        client = running.begin(b"one", b"wait")
        while not client.got:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(running.host.close, 5.0, lambda: None)
        await client.has_ended.wait()
    first, error = client.got
    assert first == 1
    assert isinstance(error, OverloadedError)
