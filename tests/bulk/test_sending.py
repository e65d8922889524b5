"""What is the recording's fault, and what is the server's."""

import asyncio
from dataclasses import replace
from itertools import cycle
from typing import Any, ClassVar
from unittest.mock import AsyncMock

import pytest

from conch.bulk import sending
from conch.bulk.sending import MAX_FAILURES, MAX_RETRIES, Answer, Sender, Sending
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
    """An `AsyncClient` that raises what it is told, then answers."""

    script: ClassVar[list[Exception]] = []
    is_there = True
    asked = 0

    def __init__(self, url: str, **settings: Any) -> None:
        self.url = url

    async def transcribe(self, audio: Any, **options: Any) -> Transcript:
        Scripted.asked += 1
        if Scripted.script:
            raise Scripted.script.pop(0)
        return ANSWER

    async def is_ready(self) -> bool:
        if not Scripted.is_there:
            raise ServerError("cannot reach a server")
        return True

    async def close(self) -> None:
        pass


def sent(monkeypatch, *script: Exception, is_there: bool = True, read: Any = None) -> Answer:
    monkeypatch.setattr(sending, "AsyncClient", Scripted)
    monkeypatch.setattr(sending, "RETRY_S", 0.0)
    Scripted.script, Scripted.is_there, Scripted.asked = list(script), is_there, 0

    async def bytes_of() -> bytes:
        return b"audio"

    async def run() -> Answer:
        sender = Sender(lambda: "grpc://x:1", Sending(jobs=2, timeout_s=1.0, patience_s=0.0))
        heard = await sender.transcribe(read or bytes_of, {})
        assert sender.in_flight == 0
        await sender.close()
        return heard

    return asyncio.run(run())


def test_an_answer_comes_through_what_passes(monkeypatch) -> None:
    passing = (OverloadedError("full"), ServerError("lost"), ComponentError("died"))
    heard = sent(monkeypatch, *passing)
    assert heard.transcript == ANSWER
    assert Scripted.asked == 4


@pytest.mark.parametrize("error", [AudioError("bad"), DeadlineError("late")])
def test_a_fault_of_the_recording_is_its_own(monkeypatch, error: Exception) -> None:
    heard = sent(monkeypatch, error)
    assert heard.error is error
    assert Scripted.asked == 1


def test_a_recording_that_breaks_a_component_again_and_again_is_to_blame(monkeypatch) -> None:
    errors = [ComponentError(f"failed {turn}") for turn in range(MAX_FAILURES + 1)]
    assert sent(monkeypatch, *errors).error is errors[-1]


def test_a_server_that_cannot_be_used_again_and_again_fails_the_recording(monkeypatch) -> None:
    errors = [ServerError(f"no answer {turn}") for turn in range(MAX_RETRIES + 1)]
    assert sent(monkeypatch, *errors).error is errors[-1]


def test_a_recording_with_which_two_servers_are_lost_is_to_blame(monkeypatch) -> None:
    lost = [ServerLostError("lost"), UnreachableError("gone"), ServerLostError("lost again")]
    heard = sent(monkeypatch, *lost, ServerLostError("one more"))
    assert isinstance(heard.error, PoisonError)
    assert "lost again" in str(heard.error)
    assert Scripted.asked == 3


def test_a_recording_that_cannot_be_read_in_time_is_late(monkeypatch) -> None:
    async def never() -> bytes:
        await asyncio.Event().wait()
        return b""

    heard = sent(monkeypatch, read=never)
    assert isinstance(heard.error, DeadlineError)
    assert str(heard.error) == "not read within 1 s"


def test_the_models_of_a_new_server_are_asked_for_again(monkeypatch) -> None:
    monkeypatch.setattr(sending, "AsyncClient", Scripted)
    monkeypatch.setattr(sending, "RETRY_S", 0.0)
    monkeypatch.setattr(sending, "model_versions", lambda url, names, _: {"vad": f"of {url}"})
    answer = replace(ANSWER, path=("vad", "unknown"))
    monkeypatch.setattr(Scripted, "transcribe", AsyncMock(side_effect=[answer, LOST, answer]))
    urls = cycle(("grpc://x:1", "grpc://y:1"))

    async def bytes_of() -> bytes:
        return b"audio"

    async def run() -> list[Answer]:
        sender = Sender(urls.__next__, Sending(jobs=2, timeout_s=1.0, patience_s=0.0))
        heard = [await sender.transcribe(bytes_of, {}) for _ in range(2)]
        await sender.close()
        return heard

    first, second = asyncio.run(run())
    assert first.models == {"vad": "of grpc://x:1", "unknown": ""}
    assert second.models == {"vad": "of grpc://y:1", "unknown": ""}


def test_without_a_server_or_a_model_the_run_ends(monkeypatch) -> None:
    with pytest.raises(BulkError, match="no server for 0 s: cannot reach a server"):
        sent(monkeypatch, ServerError("lost"), is_there=False)
    with pytest.raises(BulkError, match="grpc://x:1: model vad is not loaded"):
        sent(monkeypatch, MissingModelError("model vad is not loaded", "vad"))
