"""What is the recording's fault, and what is the server's."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from typing import Any, cast

import pytest

from conch.bulk.sending import MAX_FAILURES, MAX_RETRIES, Answer, Sender, Sending
from conch.client import AsyncClient
from conch.wire.errors import (
    AudioError,
    BulkError,
    ComponentError,
    DeadlineError,
    MissingModelError,
    OverloadedError,
    PoisonError,
    ServerError,
    ServerLostError,
    UnreachableError,
)
from conch.wire.result import Hypothesis, Transcript

LOST = ServerError("lost")
ANSWER = Transcript((Hypothesis("hello", 0.0, 0.0),), (), 1.0, (), {})


class Scripted:
    """An `AsyncClient` that gives scripted answers, then ANSWER."""

    def __init__(self, *script: Exception | Transcript, is_there: bool = True) -> None:
        self.script, self.is_there = list(script), is_there
        self.asked = 0

    async def transcribe(self, audio: Any, **options: Any) -> Transcript:
        self.asked += 1
        answer = self.script.pop(0) if self.script else ANSWER
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def is_ready(self) -> bool:
        if not self.is_there:
            raise ServerError("cannot reach a server")
        return True

    async def close(self) -> None:
        pass


async def bytes_of() -> bytes:
    return b"audio"


def sent(client: Scripted, read: Any = bytes_of) -> Answer:
    async def run() -> Answer:
        sender = sender_of(client, lambda: "grpc://x:1")
        heard = await sender.transcribe(read, {})
        assert sender.in_flight == 0
        await sender.close()
        return heard

    return asyncio.run(run())


def sender_of(client: Scripted, address: Callable[[], str]) -> Sender:
    return Sender(
        address,
        Sending(jobs=2, timeout_s=1.0, patience_s=0.0),
        connect=lambda url, **settings: cast(AsyncClient, client),
        versions=lambda url, names, headers: {"vad": f"of {url}"},
        retry_s=0.0,
    )


def test_an_answer_comes_through_what_passes() -> None:
    client = Scripted(OverloadedError("full"), ServerError("lost"), ComponentError("died"))
    assert sent(client).transcript == ANSWER
    assert client.asked == 4


@pytest.mark.parametrize("error", [AudioError("bad"), DeadlineError("late")])
def test_a_fault_of_the_recording_is_its_own(error: Exception) -> None:
    client = Scripted(error)
    assert sent(client).error is error
    assert client.asked == 1


def test_a_recording_that_breaks_a_component_again_and_again_is_to_blame() -> None:
    errors = [ComponentError(f"failed {turn}") for turn in range(MAX_FAILURES + 1)]
    assert sent(Scripted(*errors)).error is errors[-1]


def test_a_server_that_cannot_be_used_again_and_again_fails_the_recording() -> None:
    errors = [ServerError(f"no answer {turn}") for turn in range(MAX_RETRIES + 1)]
    assert sent(Scripted(*errors)).error is errors[-1]


def test_a_recording_with_which_two_servers_are_lost_is_to_blame() -> None:
    lost = [ServerLostError("lost"), UnreachableError("gone"), ServerLostError("lost again")]
    client = Scripted(*lost, ServerLostError("one more"))
    heard = sent(client)
    assert isinstance(heard.error, PoisonError)
    assert "lost again" in str(heard.error)
    assert client.asked == 3


def test_a_recording_that_cannot_be_read_in_time_is_late() -> None:
    async def never() -> bytes:
        await asyncio.Event().wait()
        return b""

    heard = sent(Scripted(), read=never)
    assert isinstance(heard.error, DeadlineError)
    assert str(heard.error) == "not read within 1 s"


def test_the_models_of_a_new_server_are_asked_for_again() -> None:
    answer = replace(ANSWER, path=("vad", "unknown"))
    client = Scripted(answer, LOST, answer)

    async def run() -> list[Answer]:
        sender = sender_of(client, cycle(("grpc://x:1", "grpc://y:1")).__next__)
        heard = [await sender.transcribe(bytes_of, {}) for _ in range(2)]
        await sender.close()
        return heard

    first, second = asyncio.run(run())
    assert first.models == {"vad": "of grpc://x:1", "unknown": ""}
    assert second.models == {"vad": "of grpc://y:1", "unknown": ""}


def test_without_a_server_or_a_model_the_run_ends() -> None:
    with pytest.raises(BulkError, match="no server for 0 s: cannot reach a server"):
        sent(Scripted(ServerError("lost"), is_there=False))
    with pytest.raises(BulkError, match="grpc://x:1: model vad is not loaded"):
        sent(Scripted(MissingModelError("model vad is not loaded", "vad")))
