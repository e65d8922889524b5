"""Live streams that go on after their server is lost, against one that is scripted."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from word_server import RATE, Fault, WordServer, spoken

from conch.client import tensors
from conch.client.live import RESUME_S, START_SAMPLES, AsyncLiveStream
from conch.client.synchronous import Item, LiveStream, Portal
from conch.session.joined_streams import MAX_KEPT_S
from conch.session.resume_state import plain
from conch.wire.errors import (
    AudioError,
    ComponentError,
    ConchError,
    DeadlineError,
    OptionError,
    OverloadedError,
    PoisonError,
    ServerError,
    ServerLostError,
    SessionError,
    UnreachableError,
)
from conch.wire.result import Transcript

SETTINGS: Any = {"sample_rate": RATE, "timeout_s": 3600.0, "model": "speech"}
STREAMING: Any = {"mode": "streaming"}
TALK = spoken([(400, 300), (100, 200), (80, 300), (150, 250), (60, 200), (1800, 300), (90, 400)])
TALK = np.concatenate([TALK, np.zeros(1500, np.int16)])
TEXT = "w1 w2 w3 w4 w5 w6 w7"
LOST = ServerLostError("lost the connection", had_request=False)
DIED = ServerLostError("lost the connection: Socket closed")
AWAY = UnreachableError("no server there")


class Clock:
    """Time that passes by pauses alone."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.pauses.append(seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Direct(Portal):
    """Runs coroutines that never wait, without a thread."""

    def __init__(self) -> None:
        pass

    def run(self, coroutine: Coroutine[Any, Any, Item]) -> Item:
        try:
            coroutine.send(None)
        except StopIteration as end:
            answer: Item = end.value
            return answer
        raise AssertionError("it waits")


StreamOn = Callable[..., LiveStream]


@pytest.fixture
def stream_on(clock: Clock) -> StreamOn:
    def stream_on(server: WordServer, **settings: Any) -> LiveStream:
        async def infer(request: Any) -> Transcript:
            return server.infer(request)

        return LiveStream(Direct(), async_stream(infer, clock, **settings))

    return stream_on


def async_stream(infer: Any, clock: Clock, **settings: Any) -> AsyncLiveStream:
    defaults = {"options": STREAMING, "resume_s": RESUME_S, **SETTINGS}
    return AsyncLiveStream(infer, now=clock, sleep=clock.sleep, **{**defaults, **settings})


def chunks_of(samples: np.ndarray, length: int = 200) -> Iterator[np.ndarray]:
    for start in range(0, len(samples), length):
        yield samples[start : start + length]


class Reader:
    """What a caller sees, and that none of it is taken back."""

    def __init__(self) -> None:
        self.segments: dict[int, tuple[str, bool]] = {}
        self.firm: tuple[str, ...] = ()
        self.until_s = 0.0

    def see(self, answer: Transcript) -> None:
        for item in answer.segments:
            is_final = item.passes > 1 or bool(item.error) or answer.rolling is None
            before = self.segments.get(item.index)
            assert before is None or not before[1] or before[0] == item.text
            self.segments[item.index] = (item.text, is_final)
        finals = [text for _, (text, ok) in sorted(self.segments.items()) if ok]
        words = " ".join(finals).split()
        if answer.utterance is not None and all(ok for _, ok in self.segments.values()):
            words += [word.text for word in answer.utterance.firm]
            firm = tuple(map(plain, words))
            assert firm[: len(self.firm)] == self.firm
            self.firm = firm
        assert answer.duration >= self.until_s
        self.until_s = answer.duration
        assert answer.text.startswith(answer.stable)


def answers_to(stream: LiveStream, samples: np.ndarray = TALK, length: int = 200) -> Transcript:
    reader = Reader()
    for chunk in chunks_of(samples, length):
        reader.see(stream.send(chunk))
    last = stream.finish()
    reader.see(last)
    return last


def errors_of(stream: LiveStream) -> list[ConchError]:
    """Send all of TALK, and return the errors that its chunks meet."""
    found = []
    for chunk in chunks_of(TALK):
        try:
            stream.send(chunk)
        except ConchError as error:
            found.append(error)
    return found


def dying(
    *numbers: int, error: ConchError = LOST, then: Fault = lambda request, number: None
) -> WordServer:
    """Return a server that forgets all with the requests of these numbers."""
    server = WordServer()

    def fails(request: Any, number: int) -> Exception | None:
        if number not in numbers:
            return then(request, number)
        server.restart()
        return error

    server.fails = fails
    return server


def test_without_a_loss_nothing_is_changed(stream_on: StreamOn) -> None:
    server, plain_server = WordServer(), WordServer()
    with stream_on(server) as stream:
        one = [*(stream.send(chunk) for chunk in chunks_of(TALK)), stream.finish()]
    with stream_on(plain_server, resume_s=0.0) as stream:
        other = [*(stream.send(chunk) for chunk in chunks_of(TALK)), stream.finish()]
    assert one == other
    assert one[-1].text == TEXT
    assert stream.resumptions == ()


@pytest.mark.parametrize("mode", ["streaming", "two_pass"])
@pytest.mark.parametrize("is_heard", [False, True], ids=["unheard", "heard"])
def test_a_loss_at_any_request_costs_no_word(
    stream_on: StreamOn, mode: str, is_heard: bool
) -> None:
    for number in range(is_heard, len(TALK) // 200 + 2, 2):
        server = dying(number)
        if is_heard:  # its answer is lost
            server.loses, server.fails = server.fails, server.loses
        with stream_on(server, options={"mode": mode}) as stream:
            last = answers_to(stream)
        assert plain(last.text) == plain(TEXT), number
        assert last.duration == pytest.approx(len(TALK) / RATE, abs=0.001)
        assert [item.index for item in last.segments] == sorted(
            item.index for item in last.segments
        )
        (resumption,) = stream.resumptions
        assert resumption.error is LOST
        assert resumption.sent_again_s < 4


@pytest.mark.parametrize("cases", [8, pytest.param(300, marks=pytest.mark.nightly)])
def test_random_losses_of_random_speech(stream_on: StreamOn, cases: int) -> None:
    chance = random.Random(cases)
    for _ in range(cases):
        lengths = [
            (chance.choice([40, 80, 150, 700, 1900]), chance.randint(60, 500)) for _ in range(25)
        ]
        samples = np.concatenate([spoken(lengths), np.zeros(chance.randint(0, 2000), np.int16)])
        expected = " ".join(f"w{number}" for number in range(1, 26))
        server = dying(*chance.sample(range(80), 4))
        options = {
            "mode": chance.choice(["streaming", "two_pass"]),
            "word_timestamps": chance.random() < 0.5,
        }
        with stream_on(server, options=options) as stream:
            last = answers_to(stream, samples, chance.choice([50, 200, 640, 1700]))
        assert plain(last.text) == plain(expected)
        assert bool(last.words) == bool(options["word_timestamps"] and last.words)
        if options["word_timestamps"]:
            starts = [word.start for word in last.words]
            assert starts == sorted(starts)
            assert len(last.words) == 25


def test_times_and_indices_go_on(stream_on: StreamOn) -> None:
    expected = answers_to(stream_on(WordServer(), options={**STREAMING, "word_timestamps": True}))
    server = dying(30)
    last = answers_to(stream_on(server, options={**STREAMING, "word_timestamps": True}))
    result = [(word.text, pytest.approx(word.start, abs=0.002)) for word in last.words]
    assert [(word.text, word.start) for word in expected.words] == result
    for one, other in pairwise(last.segments):
        assert one.start <= one.end <= other.start
    ends = [segment.endpoint for segment in last.segments]
    assert ends.count("lost") <= 1
    assert [item.index for item in last.segments] == list(range(len(last.segments)))


def test_a_loss_while_it_goes_on(clock: Clock, stream_on: StreamOn) -> None:
    # 9: lost; 10: the old stream is ended, in vain; 11: START is lost; 13, 15: and again.
    server = dying(9, 10, 11, 13, 15)
    losses: list[ConchError] = []
    with stream_on(server, on_loss=losses.append) as stream:
        last = answers_to(stream)
    assert last.text == TEXT
    assert losses == [LOST]
    assert len(stream.resumptions) == 1
    assert clock.pauses[:2] == [0.1, 0.2]


@pytest.fixture
def server() -> WordServer:
    return WordServer()


def test_a_server_that_is_away_for_seconds(
    server: WordServer, clock: Clock, stream_on: StreamOn
) -> None:
    def fails(request: Any, number: int) -> ConchError | None:
        if number == 9:
            server.restart()
            clock.now_s += 1
            return LOST
        return AWAY if number > 9 and clock.now_s < 14 else None

    server.fails = fails
    with stream_on(server) as stream:
        last = answers_to(stream)
    assert last.text == TEXT
    assert clock.pauses == [0.1, 0.2, 0.4, 0.8, 1.6, *[2.0] * 5]
    (resumption,) = stream.resumptions
    assert 12 < resumption.waited_s < 16


def test_a_server_that_is_away_for_good(clock: Clock, stream_on: StreamOn) -> None:
    server = WordServer(lambda request, number: AWAY if number > 8 else None)
    with stream_on(server) as stream:
        with pytest.raises(ServerLostError, match=r"the server was lost.*no server there"):
            answers_to(stream)
        assert 50 < clock.now_s < RESUME_S
        assert stream.resumptions == ()


def test_what_was_sent_before_it_gave_up_is_heard_later(clock: Clock, stream_on: StreamOn) -> None:
    server = dying(9, then=lambda _, number: AWAY if number > 9 and clock.now_s < 70 else None)
    with stream_on(server) as stream:
        (error,) = errors_of(stream)
        assert isinstance(error, ServerLostError)
        assert stream.finish().text == TEXT


def test_a_time_limit_of_the_chunk_comes_first(clock: Clock, stream_on: StreamOn) -> None:
    server = WordServer(lambda request, number: AWAY if number > 8 else None)
    with stream_on(server, timeout_s=3.0) as stream, pytest.raises(ServerLostError):
        answers_to(stream)
    assert clock.now_s < 3


def test_audio_that_ends_every_server_ends_two(server: WordServer, stream_on: StreamOn) -> None:
    def fails(request: Any, number: int) -> ConchError | None:
        samples = request.inputs["PCM16"]
        if (samples == 5).any():  # its fifth word
            server.restart()
            return DIED
        return None

    server.fails = fails
    with stream_on(server) as stream:
        with pytest.raises(PoisonError, match="2 servers were lost"):
            answers_to(stream)
        num_sent = len(server.requests)
        with pytest.raises(PoisonError):
            stream.send(TALK[:200])
    assert len(server.requests) == num_sent
    assert len(server.starts) == 2


def test_a_process_that_dies_of_audio_it_has_answered_ends_two_servers(
    server: WordServer, stream_on: StreamOn
) -> None:
    """A pass over the audio ends the process when the next chunks are there."""

    def fails(request: Any, number: int) -> ConchError | None:
        stream = server.streams.get(request.position.stream_id)
        if stream is not None and (stream.samples == 5).any():
            server.restart()
            return DIED
        return None

    server.fails = fails
    with stream_on(server) as stream, pytest.raises(PoisonError):
        answers_to(stream)
    assert len(server.starts) == 2


def test_servers_that_are_replaced_one_by_one_do_not_end_a_long_stream(stream_on: StreamOn) -> None:
    lengths = [(1500 if number % 5 else 100, 300) for number in range(60)]
    talk = np.concatenate([spoken(lengths), np.zeros(1500, np.int16)])
    server = dying(*range(30, len(talk) // 200, 60), error=DIED)
    with stream_on(server) as stream:
        last = answers_to(stream, talk)
        assert len(stream.resumptions) > 5
    assert plain(last.text) == "".join(f"w{number}" for number in range(1, 61))


@pytest.mark.parametrize(
    "error",
    [
        SessionError("expired"),
        AWAY,
        tensors.UnavailableError("http://host is about to stop"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_other_words_for_a_stream_that_is_gone(stream_on: StreamOn, error: ConchError) -> None:
    server = dying(12, error=error)
    with stream_on(server) as stream:
        assert answers_to(stream).text == TEXT
    assert [item.error for item in stream.resumptions] == [error]


@pytest.mark.parametrize(
    "error",
    [ComponentError("vad failed"), DeadlineError("late"), ServerError("wrong key")],
    ids=lambda error: type(error).__name__,
)
def test_other_errors_are_raised_and_the_next_chunk_goes_on(
    clock: Clock, stream_on: StreamOn, error: ConchError
) -> None:
    server = dying(12, error=error)
    with stream_on(server) as stream:
        assert errors_of(stream) == [error]
        assert stream.finish().text == TEXT


@pytest.mark.parametrize(
    "error", [AudioError("not finite"), OverloadedError("256 chunks wait")], ids=["audio", "full"]
)
def test_a_chunk_that_is_refused_is_not_sent_again(stream_on: StreamOn, error: ConchError) -> None:
    noise = np.full(50, 99, np.int16)
    server = dying(12, then=lambda _, number: error if number == 10 else None)
    with stream_on(server) as stream:
        for number, chunk in enumerate(chunks_of(TALK)):
            if number == 10:
                with pytest.raises(type(error)):
                    stream.send(noise)
            stream.send(chunk)
        assert stream.finish().text == TEXT


def test_a_first_chunk_that_finds_no_server(clock: Clock, stream_on: StreamOn) -> None:
    server = WordServer(lambda request, number: AWAY if not number else None)
    with stream_on(server) as stream:
        with pytest.raises(UnreachableError):
            stream.send(TALK[:200])
        assert answers_to(stream).text == TEXT
    assert clock.pauses == []


def test_a_server_that_is_full_is_asked_again(clock: Clock, stream_on: StreamOn) -> None:
    def is_full(request: Any, number: int) -> ConchError | None:
        starts = request.position is not None and request.position.starts
        return OverloadedError.until("full", 5) if starts and 9 < number < 12 else None

    server = dying(9, then=is_full)
    with stream_on(server) as stream:
        assert answers_to(stream).text == TEXT
    assert clock.pauses == [5.0]


@pytest.mark.parametrize(
    ("loss", "number"),
    [
        pytest.param("fails", 9, id="connection"),
        pytest.param("loses", 0, id="answer to START"),
    ],
)
def test_a_stream_that_goes_on_at_a_server_that_was_lost_is_ended(
    server: WordServer, clock: Clock, stream_on: StreamOn, loss: str, number: int
) -> None:
    setattr(server, loss, lambda request, at: LOST if at == number else None)
    with stream_on(server) as stream:
        assert answers_to(stream).text == TEXT
    first = server.requests[0].position
    assert first is not None
    assert server.abandoned == [first.stream_id]
    assert server.streams == {}


def test_it_is_told_even_if_the_chunk_that_found_another_server_fails(
    clock: Clock, stream_on: StreamOn
) -> None:
    late = DeadlineError("late")
    seen: list[ConchError] = []

    def is_late(request: Any, number: int) -> ConchError | None:
        is_chunk = request.inputs["WAV_LENS"][0, 0] == 200
        return late if number > 9 and is_chunk and not seen else None

    server = dying(9, then=is_late)
    with stream_on(server) as stream:
        for chunk in chunks_of(TALK):
            try:
                stream.send(chunk)
            except DeadlineError as error:
                seen.append(error)
                clock.now_s += 5
        stream.finish()
    assert seen == [late]
    (resumption,) = stream.resumptions
    assert resumption.waited_s == 5
    assert resumption.sent_again_s > 0


def test_audio_is_bounded_while_no_server_is_found(server: WordServer, stream_on: StreamOn) -> None:
    is_away = False
    server.fails = lambda request, number: AWAY if is_away else None
    with stream_on(server, resume_s=0.01) as stream:
        for number in range(40):
            with contextlib.suppress(ServerLostError):
                stream.send(np.full(10 * RATE, number % 5, np.int16))
            is_away = number >= 8
        is_away = False
        stream.finish()
    (resumption,) = stream.resumptions
    assert 0 < resumption.sent_again_s <= MAX_KEPT_S


def test_options_are_sent_again_and_sessions_are_new(stream_on: StreamOn) -> None:
    server = dying(9)
    answers_to(stream_on(server, options={"mode": "streaming", "nbest": 2}))
    one, other = server.starts
    assert one.parameters["nbest"] == other.parameters["nbest"] == 2
    assert one.parameters["session"] != other.parameters["session"]


def test_another_stream_is_opened_by_a_short_chunk(stream_on: StreamOn) -> None:
    server = dying(20)
    with stream_on(server) as stream:
        assert answers_to(stream).text == TEXT
    (loss,) = stream.resumptions
    assert loss.sent_again_s * RATE > START_SAMPLES
    _, start = server.starts
    assert start.inputs["WAV_LENS"].item() <= START_SAMPLES


@pytest.mark.parametrize("mode", ["streaming", "two_pass"])
def test_a_gateway_that_stops_ends_a_stream_and_costs_no_word(clock: Clock, mode: str) -> None:
    for number in range(1, 20):
        server = WordServer()

        async def infer(request: Any, server: WordServer = server, stops: int = number) -> Any:
            if len(server.requests) == stops:
                request = replace(request, position=replace(request.position, ends=True))
            return server.infer(request)

        live = async_stream(infer, clock, options={"mode": mode})
        with LiveStream(Direct(), live) as stream:
            assert plain(answers_to(stream).text) == plain(TEXT), number
        assert len(stream.resumptions) == 1


def test_it_is_switched_off(stream_on: StreamOn) -> None:
    server = dying(9)
    with stream_on(server, resume_s=0.0) as stream, pytest.raises(ServerLostError):
        answers_to(stream)
    assert len(server.requests) == 11  # with the end of the stream
    with pytest.raises(OptionError, match="resume_s"):
        stream_on(server, resume_s=-1.0)


def test_the_text_repeats_what_was_said_before(stream_on: StreamOn) -> None:
    server = dying(20)
    texts = []
    with stream_on(server, options={**STREAMING, "repeat_text": True}) as stream:
        for chunk in chunks_of(TALK):
            texts.append(stream.send(chunk).text)
        assert stream.finish().text == TEXT
    assert plain(texts[-1]) == plain(TEXT)


def test_without_partials_no_word_is_lost(stream_on: StreamOn) -> None:
    server = dying(20)
    with stream_on(server, options={**STREAMING, "partials": False}) as stream:
        last = [stream.send(chunk) for chunk in chunks_of(TALK)][-1]
        assert last.utterance is None or last.utterance.words
        assert stream.finish().text == TEXT


async def test_with_asyncio_chunks_that_were_sent_at_once_keep_their_order(clock: Clock) -> None:
    chance = random.Random(3)
    for _ in range(20):
        # Not with the first chunk: without a server before, the first chunk raises the error.
        server = dying(*chance.sample(range(1, 60), 3))
        assert await _sent_at_once(server, clock, chance) == TEXT


async def _sent_at_once(server: WordServer, clock: Clock, chance: random.Random) -> str:
    lock = asyncio.Lock()

    async def infer(request: Any) -> Any:
        async with lock:  # in the order of the requests
            await asyncio.sleep(0)
            try:
                return server.infer(request)
            finally:
                late = chance.random() < 0.5
        if late:
            await asyncio.sleep(0)

    async with async_stream(infer, clock) as stream:
        chunks = list(chunks_of(TALK))
        for start in range(0, len(chunks), 7):
            await asyncio.gather(*(stream.send(chunk) for chunk in chunks[start : start + 7]))
        return (await stream.finish()).text


async def test_with_asyncio_chunks_may_be_sent_while_the_stream_before_is_ended(
    clock: Clock,
) -> None:
    server = WordServer(lambda request, number: LOST if number == 10 else None)
    is_ending, is_sent = asyncio.Event(), asyncio.Event()

    async def infer(request: Any) -> Any:
        if request.parameters.get("abandon"):
            is_ending.set()
            await is_sent.wait()
        return server.infer(request)

    async with async_stream(infer, clock) as stream:
        chunks = list(chunks_of(TALK))
        for chunk in chunks[:10]:
            await stream.send(chunk)
        first = asyncio.create_task(stream.send(chunks[10]))
        await is_ending.wait()
        others = [asyncio.create_task(stream.send(chunk)) for chunk in chunks[11:]]
        await asyncio.sleep(0)  # each has begun
        is_sent.set()
        await asyncio.gather(first, *others)
        assert (await stream.finish()).text == TEXT


async def test_a_chunk_that_is_cancelled_before_it_was_sent_is_taken_back(clock: Clock) -> None:
    away = True
    server = dying(9, then=lambda _, number: AWAY if number > 9 and away else None)

    async def infer(request: Any) -> Any:
        await asyncio.sleep(0)
        return server.infer(request)

    async with async_stream(infer, clock) as stream:
        for number, chunk in enumerate(chunks_of(TALK)):
            if number == 9:
                noise = np.full(50, 99, np.int16)
                sending = [asyncio.create_task(stream.send(noise)) for _ in range(2)]
                while len(server.requests) < 14:
                    await asyncio.sleep(0)
                for task in sending:
                    task.cancel()
                await asyncio.wait(sending)
                away = False
            await stream.send(chunk)
        assert (await stream.finish()).text == TEXT
