"""The answers of a live stream, of a server that keeps a part of it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from live_answers import answer, segment

from conch.client.live import AsyncLiveStream, LiveStream
from conch.wire.result import Transcript

CHUNK = np.zeros(100, np.int16)
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


def told(answers: Sequence[Transcript], **settings: Any) -> list[Transcript]:
    results = iter(np.array([item.to_json().encode()], np.object_) for item in answers)
    stream = LiveStream(lambda request: next(results), **SETTINGS, **settings)
    return [*(stream.send(CHUNK) for _ in answers[:-1]), stream.finish()]


def test_the_last_answer_has_all_utterances_by_their_latest_pass() -> None:
    *before, last = told(ANSWERS, options={})
    assert before == list(ANSWERS[:-1])
    assert [item.text for item in last.segments] == ["One.", "Two.", "three"]
    assert [item.passes for item in last.segments] == [2, 2, 1]
    assert last.text == last.stable == "One. Two. three"
    assert (last.duration, last.is_final) == (1.0, True)


def test_it_has_them_with_asyncio_too() -> None:
    results = iter(np.array([item.to_json().encode()], np.object_) for item in ANSWERS)

    async def infer(request: Any) -> Any:
        return next(results)

    async def last() -> Transcript:
        stream = AsyncLiveStream(infer, **SETTINGS, options={})
        for _ in ANSWERS[:-1]:
            await stream.send(CHUNK)
        return await stream.finish()

    assert asyncio.run(last()).text == "One. Two. three"


def test_it_has_the_best_texts_of_all_utterances() -> None:
    item = segment("one", 0)
    other = replace(item.nbest[0], text="won", score=-1.0)
    ambiguous = replace(item, nbest=(*item.nbest, other))
    last = told([answer("one", ambiguous), *ANSWERS[2:]], options={"nbest": 2})[-1]
    assert [item.text for item in last.nbest] == ["one Two. three", "won Two. three"]


@pytest.mark.parametrize("answers", [ANSWERS, ANSWERS[-1:]])
def test_without_them_it_is_the_servers(answers: Sequence[Transcript]) -> None:
    assert told(answers, options={}, keep_segments=False)[-1] == ANSWERS[-1]
