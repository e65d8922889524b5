"""A long text goes in parts, each when the one before is taken, and their answers are one."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing

import numpy as np
import pytest

from conch.client.aio import timeout
from conch.client.speech import PART, Speech, speech_of, speech_requests, spoken_text, whole_of
from conch.client.tensors import Request
from conch.wire.errors import DeadlineError, OptionError, ServerError, TextError
from conch.wire.result import Stage
from conch.wire.synthesis import Spoken, SpokenSentence

TEXT = "This is the first. " * 200


def speaking(speak, text, **options) -> AsyncGenerator[Speech, None]:
    request = speech_requests(None, "synthesis_stream", "id", options, default_timeout_s=9.0)
    return spoken_text(speak, request, text, options)


class Server:
    """Speaks every part in two pieces of a second; a part in capitals has no sound."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.requests: list[Request] = []

    async def speak(self, request):
        text = request.inputs["TEXT"].item().decode()
        self.texts.append(text)
        self.requests.append(request)
        if text.isupper():
            raise TextError("no word")
        sentence = SpokenSentence(text, "", 0.0, 2.0)
        second = np.ones(10, np.float32)
        yield Speech(second, b"", Spoken(1.0, 10, "hibari", (sentence,)))
        yield Speech(second, b"", Spoken(2.0, 10, "hibari"))
        stages = {"vocoder": Stage(2, 5.0), "total": Stage(2, 6.0)}
        yield Speech(second[:0], b"", Spoken(2.0, 10, "hibari", (), ("vocoder",), stages))


async def spoken(text, server: Server, **options) -> list[Speech]:
    return [piece async for piece in speaking(server.speak, text, **options)]


@pytest.fixture
def server() -> Server:
    return Server()


async def test_the_answers_to_parts_are_one(server: Server) -> None:
    pieces = await spoken(TEXT, server)
    assert "".join(server.texts).split() == TEXT.split() and len(server.texts) > 2
    whole = whole_of(pieces)
    number = len(server.texts)
    assert len(whole.waveform) == 20 * number and whole.spoken.duration == 2.0 * number
    assert [item.start for item in whole.spoken.sentences] == [2.0 * i for i in range(number)]
    assert whole.spoken.stages["vocoder"] == Stage(2 * number, 5.0 * number)
    assert [bool(piece.spoken.stages) for piece in pieces] == [False] * 2 * number + [True]


async def test_a_reader_that_stops_asks_for_no_further_part(server: Server) -> None:
    async with aclosing(speaking(server.speak, TEXT)) as pieces:
        await anext(pieces)
        assert len(server.texts) == 1
    assert len(server.texts) == 1


async def test_a_file_is_one_request(server: Server) -> None:
    await spoken([TEXT[:100], TEXT[100:]], server, format="mp3", speed=2)
    (request,) = server.requests
    assert server.texts == [TEXT.strip()]
    assert request.parameters == {"format": "mp3", "speed": 2.0}
    assert request.outputs == ("AUDIO", "RESULT")
    server = Server()
    await spoken(TEXT, server, format="pcm_s16")
    assert len(server.requests) > 2


async def test_a_part_says_how_much_is_still_to_be_played(server: Server) -> None:
    await spoken(TEXT, server)
    first, second, third, *_ = [int(item.parameters.get("lead_ms", 0)) for item in server.requests]
    assert first == 0 and 1000 < second <= 2000 and 3000 < third <= 4000


async def test_the_budget_is_that_of_all_parts(server: Server) -> None:
    with pytest.raises(DeadlineError, match="deadline of 15 ms is over: 6 s made"):
        await spoken(TEXT * 2, server, deadline_ms=15)
    assert [item.parameters["deadline_ms"] for item in server.requests] == [15, 9, 3]


async def test_each_sentence_is_spoken_while_the_next_one_is_written(server: Server) -> None:
    first_audio = asyncio.Event()

    async def written():
        yield "This is the fi"
        yield "rst. T"
        await asyncio.wait_for(first_audio.wait(), 20)
        yield "his is it too. And this"

    async for piece in speaking(server.speak, written()):
        if piece.has_sound:
            first_audio.set()
    assert server.texts[0] == "This is the first."
    assert "".join(server.texts) == "This is the first. This is it too. And this"


async def test_a_plain_iterable_may_block_and_is_read_no_faster_than_it_is_spoken() -> None:
    server, may_go_on, taken = Server(), threading.Event(), 0

    def written():
        nonlocal taken
        yield "This is the first. T"
        assert may_go_on.wait(20)
        for taken in range(1000):  # noqa: B007
            yield "his is one of many. T"

    async with aclosing(speaking(server.speak, written())) as pieces:
        await anext(pieces)
        may_go_on.set()
        async for _ in pieces:
            if len(server.texts) == 3:
                async with timeout(20):
                    while taken < 2:
                        await asyncio.sleep(0.01)
                break
    assert taken <= 4 * PART / 20


async def test_an_error_of_the_writer_comes_behind_what_was_written() -> None:
    def written():
        yield "This is the first. And"
        raise KeyError("no more")

    server = Server()
    with pytest.raises(KeyError):
        await spoken(written(), server)
    assert "".join(server.texts) == "This is the first. And"


async def test_what_nobody_takes_leaves_no_thread_and_no_task() -> None:
    before, tasks = threading.active_count(), asyncio.all_tasks()
    async with aclosing(speaking(Server().speak, ["This is it. "] * 10_000)) as pieces:
        await anext(pieces)
    assert asyncio.all_tasks() == tasks
    while threading.active_count() > before:
        await asyncio.sleep(0.001)


async def test_a_part_without_sound_is_passed_over_unless_all_are(server: Server) -> None:
    pieces = await spoken(f"{TEXT}\n{'SILENT. ' * 300}\n{TEXT}", server)
    assert any(text.isupper() for text in server.texts)
    assert pieces[-1].spoken.duration > 2.0
    assert "no word" in pieces[-1].spoken.warnings
    with pytest.raises(TextError, match="no word"):
        await spoken("SILENT.", Server())


async def test_wrong_options_and_answers_are_errors() -> None:
    with pytest.raises(OptionError, match="option 'speed'"):
        await spoken("Hi.", Server(), speed=9)

    async def nothing(request):
        return
        yield

    with pytest.raises(ServerError, match="has not ended"):
        async for _ in speaking(nothing, "Hi."):
            pass
    with pytest.raises(ServerError, match="not that of a model that speaks"):
        speech_of({"RESULT": np.array([b"{}"], np.object_)}.get)
    with pytest.raises(TextError, match="with words"):
        await spoken(" ", Server())


async def test_half_a_surrogate_pair_is_an_error_of_the_text() -> None:
    with pytest.raises(TextError, match="what UTF-8 can write"):
        await spoken("Hello \ud800.", Server())
