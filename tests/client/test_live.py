"""What a client's live stream sends, and its answers of a server that keeps a part of them."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from live_answers import answer, segment

from conch.client.live import AsyncLiveStream
from conch.client.synchronous import LiveStream, Portal
from conch.wire.errors import ServerError
from conch.wire.result import Hypothesis, Transcript, Turn

CHUNK = np.zeros(100, np.int16)
NOTHING = Transcript((Hypothesis("", 0.0, 0.0),), (), 0.01, (), {})
SETTINGS: Any = {"sample_rate": 16_000, "timeout_s": 1.0, "model": "speech"}
ANSWERS = (
    answer("one", segment("one", 0)),
    answer("One. two", segment("One.", 0, passes=2), segment("two", 1)),
    answer("two three", segment("three", 2), stable="two"),
    answer(
        "Two. three",
        segment("Two.", 1, passes=2),
        segment("three", 2),
        stable="Two. three",
        is_final=True,
    ),
)


async def nothing() -> None:
    pass


def blocking(infer: Callable[[Any], Transcript], **settings: Any) -> LiveStream:
    async def answered(request: Any) -> Transcript:
        return infer(request)

    return LiveStream(Portal(nothing), AsyncLiveStream(answered, **SETTINGS, **settings))


def answers_to(answers: Sequence[Transcript], **settings: Any) -> list[Transcript]:
    results = iter(answers)
    stream = blocking(lambda request: next(results), **settings)
    return [*(stream.send(CHUNK) for _ in answers[:-1]), stream.finish()]


def test_the_last_answer_has_all_utterances_by_their_latest_pass() -> None:
    *before, last = answers_to(ANSWERS, options={})
    assert before == list(ANSWERS[:-1])
    assert [item.text for item in last.segments] == ["One.", "Two.", "three"]
    assert [item.passes for item in last.segments] == [2, 2, 1]
    assert last.text == last.stable == "One. Two. three"
    assert (last.duration, last.is_final) == (1.0, True)


def test_it_has_the_best_texts_of_all_utterances() -> None:
    item = segment("one", 0)
    other = replace(item.nbest[0], text="won", score=-1.0)
    ambiguous = replace(item, nbest=(*item.nbest, other))
    last = answers_to([answer("one", ambiguous), *ANSWERS[2:]], options={"nbest": 2})[-1]
    assert [item.text for item in last.nbest] == ["one Two. three", "won Two. three"]


@pytest.mark.parametrize("answers", [ANSWERS, ANSWERS[-1:]])
def test_without_them_it_is_the_servers(answers: Sequence[Transcript]) -> None:
    assert answers_to(answers, options={}, keep_segments=False)[-1] == ANSWERS[-1]


def test_utterances_that_the_server_has_forgotten_are_relabelled_too() -> None:
    said = replace(segment("one", 0), speaker="B")
    turns = (Turn("A", 0.0, 1.0),)
    last = replace(answer("two", segment("two", 1), is_final=True), turns=turns, relabelled=turns)
    result = answers_to([answer("one", said), last], options={})[-1]
    assert [item.speaker for item in result.segments] == ["A", "A"]


def leave_early(sent, fails=lambda request: False):
    """Send a chunk and leave the block by Ctrl-C."""

    def infer(request):
        sent.append(request)
        if fails(request):
            raise ServerError("no server")
        return NOTHING

    with pytest.raises(KeyboardInterrupt), blocking(infer, options={}) as stream:
        stream.send(CHUNK)
        raise KeyboardInterrupt


def leave_early_async(sent):
    async def infer(request):
        sent.append(request)
        return NOTHING

    async def main():
        async with AsyncLiveStream(infer, **SETTINGS, options={}) as stream:
            await stream.send(CHUNK)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())


@pytest.mark.parametrize("leave", [leave_early, leave_early_async])
def test_a_stream_that_is_left_early_is_abandoned(leave):
    sent = []
    leave(sent)
    first, last = sent
    assert "abandon" not in first.parameters
    assert last.parameters == {"session": first.parameters["session"], "abandon": True}
    assert (last.position.stream_id, last.position.ends) == (first.position.stream_id, True)
    assert last.inputs["WAV_LENS"].item() == 0


def test_a_server_that_cannot_be_told_hides_no_error_of_the_block():
    sent = []
    leave_early(sent, lambda request: request.position.ends)
    assert len(sent) == 2


def test_a_stream_that_never_began_has_nothing_to_abandon():
    sent = []
    with blocking(sent.append, options={}):
        pass
    assert sent == []
