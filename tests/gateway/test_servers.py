"""Which server gets the next work, with clients that never reach one."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from loop_gateway import until

from conch import families
from conch.client import AsyncClient
from conch.client.live import AsyncLiveStream
from conch.client.tensors import Request, UnavailableError
from conch.families.family import AddedVoice
from conch.gateway.servers import HEAL_S, Servers, SessionClient
from conch.wire.entry_points import Health
from conch.wire.errors import (
    AudioError,
    ConchError,
    OptionError,
    PoisonError,
    ServerError,
    ServerLostError,
    UnreachableError,
)
from conch.wire.result import Hypothesis, Transcript
from conch.wire.synthesis import SynthesisOptions, synthesizer_of

JOE = AddedVoice(
    synthesizer="piper",
    name="joe",
    language="en-US",
    description="a voice",
    has_speakers=False,
    sample_rate=16_000,
    frame_samples=256,
    context=7,
)
NOTHING = Transcript((Hypothesis("", 0.0, 0.0),), (), 0.0, (), {})
URLS = ("grpc://a:1", "grpc://b:1", "grpc://c:1")
LIVE: Any = {"sample_rate": 16_000, "timeout_s": 60.0, "options": {"mode": "streaming"}}


class PlainClient:
    gone: ClassVar[set[str]] = set()
    asked: ClassVar[list[str]] = []
    away: ClassVar[dict[str, tuple[str, ...]]] = {}
    older: ClassVar[set[str]] = set()
    synthesize_stream = None

    def __init__(self, url: str, **settings: object) -> None:
        self.url = url

    async def is_ready(self, model: str = "speech", *, timeout_s: float = 5.0) -> bool:
        if self.url in self.gone:
            raise ServerError(f"cannot reach a server at {self.url}")
        return model != "rescorer"

    async def health(self, *, timeout_s: float) -> Health:
        if self.url in self.older:
            raise ServerError("the server does not say which components it has")
        voices = (json.dumps([asdict(JOE)]),)
        return Health(self.away.get(self.url, ()), ("rescorer", "punctuator"), ("mine",), voices)

    async def infer(self, request: Request) -> Transcript:
        if self.url in self.gone:
            raise UnreachableError(f"cannot reach a server at {self.url}")
        self.asked.append(self.url)
        return replace(NOTHING, is_final=False)

    async def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def plain_clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(families, "_ADDED", {})
    yield
    for state in (PlainClient.gone, PlainClient.asked, PlainClient.away, PlainClient.older):
        state.clear()


@asynccontextmanager
async def started(urls: Sequence[str] = URLS, **times: float) -> AsyncIterator[Servers]:
    servers = Servers(urls, connect=PlainClient, **times)  # type: ignore[arg-type]
    await servers.start()
    try:
        yield servers
    finally:
        await servers.close()


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    async with started() as servers:
        yield servers


async def test_a_gateway_learns_the_voices_of_its_servers() -> None:
    with pytest.raises(OptionError, match="sent: 'joe'"):
        synthesizer_of("joe")
    async with started():
        result = synthesizer_of("joe")
        assert (result.name, result.sample_rate, result.frames_before) == ("piper", 16_000, 7)
        assert SynthesisOptions.parse({"voice": "joe"}).voice == "joe"


async def lose(servers: Servers, *urls: str) -> None:
    """Lose servers, and wait until the gateway knows that none is left."""
    PlainClient.gone.update(urls)
    await until(lambda: not servers.is_ready)


async def url_of(client: AsyncClient | SessionClient) -> str:
    return str(client.url if isinstance(client, PlainClient) else client.server.url)


def failing(error: ConchError, *urls: str) -> Callable[[AsyncClient], Awaitable[str]]:
    """Return a request that fails at some servers; the others answer with their URL."""

    async def ask(client: AsyncClient) -> str:
        url = await url_of(client)
        if url in urls:
            PlainClient.gone.add(url) if isinstance(error, ServerError) else None
            raise error
        return url

    return ask


async def test_the_log_says_why_a_server_is_not_ready_from_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    PlainClient.gone.add("grpc://b:1")
    with caplog.at_level("INFO", "conch.gateway"):
        async with started() as servers:
            assert servers.num_ready == 2
    assert "server grpc://b:1 is not ready: cannot reach a server at grpc://b:1" in caplog.messages


async def test_the_least_busy_one_gets_the_next_session(servers: Servers) -> None:
    async with servers.reserved() as first, servers.reserved() as second:
        async with servers.reserved() as third:
            urls = {await url_of(client) for client in (first, second, third)}
            assert urls == set(URLS)
        async with servers.reserved() as fourth:
            assert await url_of(fourth) == await url_of(third)


async def test_a_file_goes_to_the_next_one_if_a_server_is_lost() -> None:
    async with started(heal_s=0.0) as servers:
        ask = failing(ServerError("lost"), "grpc://a:1", "grpc://b:1")
        assert await servers.answer(ask, "digest") == "grpc://c:1"
        # The lost ones get no more work.
        for _ in range(3):
            assert await servers.answer(url_of, "digest") == "grpc://c:1"
        with pytest.raises(ServerError, match="no speech server is ready"):
            await servers.answer(failing(ServerError("lost"), *URLS), "digest")
        assert not servers.is_ready


async def test_a_file_whose_servers_are_all_lost_is_sent_once_more() -> None:
    async with started(heal_poll_s=0.01) as servers:
        urls: list[str] = []

        async def lost(client: AsyncClient) -> str:
            urls.append(await url_of(client))
            if len(urls) <= len(URLS):
                PlainClient.gone.add(urls[-1])
                raise ServerError("lost")
            return "a text"

        async def heal() -> None:
            await until(lambda: len(PlainClient.gone) == len(URLS))
            PlainClient.gone.discard("grpc://b:1")

        text, _ = await asyncio.gather(servers.answer(lost, "digest"), heal())
        assert text == "a text"
        assert urls == [*URLS, "grpc://b:1"]


async def test_a_file_that_comes_while_a_server_is_replaced_waits_for_it() -> None:
    async with started(heal_poll_s=0.01, poll_s=0.01) as servers:
        await lose(servers, *URLS)
        waiting = asyncio.create_task(servers.answer(url_of, "digest"))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        PlainClient.gone.discard("grpc://b:1")
        assert await waiting == "grpc://b:1"


async def test_a_file_is_refused_at_once_where_no_server_was_ready_for_long() -> None:
    PlainClient.gone.update(URLS)
    async with started() as servers:
        with pytest.raises(ServerError, match="no speech server is ready"):
            await asyncio.wait_for(servers.answer(url_of, "digest"), HEAL_S / 10)


async def poison(client: AsyncClient) -> str:
    """Lose the server that gets it, which is back at once."""
    PlainClient.asked.append(await url_of(client))
    raise ServerLostError("the server has died of it")


async def test_a_request_that_has_lost_two_servers_gets_no_other(servers: Servers) -> None:
    with pytest.raises(PoisonError, match="died of it"):
        await servers.answer(poison, "digest")
    assert PlainClient.asked == ["grpc://a:1", "grpc://b:1"]
    # The same file once more, from anybody.
    with pytest.raises(PoisonError):
        await servers.answer(poison, "digest")
    assert len(PlainClient.asked) == 2
    assert await servers.answer(url_of, "another")


async def test_one_server_that_heals_is_lost_twice() -> None:
    async with started(URLS[:1]) as servers:
        with pytest.raises(PoisonError):
            await servers.answer(poison, "digest")
        assert PlainClient.asked == ["grpc://a:1"] * 2


async def test_a_server_that_is_away_does_not_speak_against_a_request(servers: Servers) -> None:
    async def ask(client: AsyncClient) -> str:
        PlainClient.asked.append(await url_of(client))
        raise UnreachableError("nobody is there")

    for _ in range(2):
        with pytest.raises(UnreachableError):
            await servers.answer(ask, "digest")
    assert len(PlainClient.asked) == 2 * (len(URLS) + 1)


@pytest.mark.parametrize("urls", [URLS[:1], URLS])
async def test_what_was_lost_beside_a_poison_is_sent_again_apart_from_it(
    urls: tuple[str, ...],
) -> None:
    """Eight files are in flight when a server dies; one of them ends every server."""
    async with started(urls) as servers:
        deaths = dict.fromkeys(urls, 0)

        def file(number: int) -> Callable[[AsyncClient], Awaitable[str]]:
            async def ask(client: AsyncClient) -> str:
                url = await url_of(client)
                before = deaths[url]
                if number == 3:
                    deaths[url] += 1
                await asyncio.sleep(0.01)
                if deaths[url] > before:
                    raise ServerLostError("lost")
                return "a text"

            return ask

        asking = [servers.answer(file(number), f"digest {number}") for number in range(8)]
        result = await asyncio.gather(*asking, return_exceptions=True)
        assert isinstance(result.pop(3), PoisonError)
        assert result == ["a text"] * 7
        assert sum(deaths.values()) == 2


async def test_an_error_of_the_request_is_not_tried_elsewhere(servers: Servers) -> None:
    with pytest.raises(AudioError):
        await servers.answer(failing(AudioError("no audio"), "grpc://a:1"), "digest")
    assert await servers.answer(url_of, "digest") == "grpc://a:1"


async def test_a_session_that_loses_its_server_keeps_others_from_it(servers: Servers) -> None:
    with pytest.raises(ServerError, match="lost"):
        async with servers.reserved() as client:
            await failing(ServerError("lost"), await url_of(client))(client.server.client)
    async with servers.reserved() as client:
        assert await url_of(client) == "grpc://b:1"


REPLACED = [
    ServerLostError("the process died", had_request=False),
    UnavailableError("it is replacing the model"),
]
"""What a ready server says whose other processes answer."""


@pytest.mark.parametrize("error", REPLACED, ids=["died", "unloaded"])
@pytest.mark.parametrize("urls", [URLS[:1], URLS])
async def test_a_request_waits_while_a_ready_server_replaces_its_process(
    error: ConchError, urls: Sequence[str]
) -> None:
    async with started(urls, heal_poll_s=0.01) as servers:
        tried: list[str] = []

        async def ask(client: AsyncClient) -> str:
            tried.append(await url_of(client))
            if len(tried) < 8:
                raise error
            return "audio"

        assert await servers.answer(ask, "digest") == "audio"
        assert set(tried) == set(urls)


@pytest.mark.parametrize("error", REPLACED, ids=["died", "unloaded"])
async def test_it_waits_no_longer_than_for_a_server(error: ConchError) -> None:
    async with started(heal_s=0.05, heal_poll_s=0.01) as servers:

        async def ask(client: AsyncClient) -> str:
            raise error

        with pytest.raises(type(error)):
            await asyncio.wait_for(servers.answer(ask, "digest"), HEAL_S / 3)


async def asks(stream: AsyncLiveStream) -> str:
    """Return the URL of the server that hears the next chunk."""
    await stream.send(np.zeros(100, np.int16))
    return PlainClient.asked[-1]


async def test_a_live_session_goes_on_in_another_server(servers: Servers) -> None:
    async with servers.reserved() as client, servers.reserved() as other:
        assert await url_of(other) == URLS[1]
        stream = client.live(**LIVE)
        assert await asks(stream) == URLS[0]
        PlainClient.gone.add(URLS[0])
        assert await asks(stream) == await url_of(client) == URLS[2]
        # It counts where it is, and its next stream begins there.
        assert await asks(client.live(**LIVE)) == URLS[2]
        PlainClient.gone.clear()
        await servers._look()
        async with servers.reserved() as third:
            assert await url_of(third) == URLS[0]


async def test_a_live_session_waits_for_its_only_server() -> None:
    async with (
        started(URLS[:1], poll_s=0.01, heal_poll_s=0.01) as servers,
        servers.reserved() as client,
    ):
        stream = client.live(**LIVE)
        assert await asks(stream) == URLS[0]
        PlainClient.gone.add(URLS[0])
        waiting = asyncio.create_task(asks(stream))
        await until(lambda: not servers.is_ready)
        PlainClient.gone.clear()
        assert await asyncio.wait_for(waiting, HEAL_S) == URLS[0]


@pytest.mark.parametrize("ends", ["the gateway stops", "the session has ended"])
async def test_a_live_session_that_ends_waits_for_no_server(ends: str) -> None:
    async with started(heal_poll_s=0.01) as servers:
        async with servers.reserved() as client:
            stream = client.live(**LIVE)
            await asks(stream)
            PlainClient.gone.update(URLS)
            waiting = asyncio.create_task(asks(stream))
            await until(lambda: not servers.is_ready)
            if ends == "the gateway stops":
                servers.give_up()
        with pytest.raises(ServerError):
            await asyncio.wait_for(waiting, HEAL_S / 3)


async def test_a_gateway_that_stops_does_not_wait_for_lost_servers() -> None:
    async with started(heal_poll_s=0.01) as servers:
        PlainClient.gone.update(URLS)
        waiting = asyncio.create_task(servers.answer(failing(ServerError("lost"), *URLS), "digest"))
        await until(lambda: not servers.is_ready)
        servers.give_up()
        with pytest.raises(ServerError, match="no speech server is ready"):
            await asyncio.wait_for(waiting, HEAL_S / 3)


async def test_a_server_that_comes_back_gets_work_again() -> None:
    PlainClient.gone.update(URLS)
    async with started(heal_poll_s=0.01) as servers:
        assert not servers.is_ready
        assert await servers.ready_models(["vad"]) == set()
        PlainClient.gone.discard("grpc://b:1")
        await until(lambda: servers.is_ready)
        assert await servers.answer(url_of, "digest") == "grpc://b:1"
        assert await servers.ready_models(["vad", "rescorer"]) == {"vad", "rescorer"}
        PlainClient.older.add("grpc://b:1")
        assert await servers.ready_models(["vad", "rescorer"]) == {"vad"}


async def test_a_server_whose_components_answer_goes_first() -> None:
    PlainClient.away.update({URLS[0]: ("vad",), URLS[2]: ("vad",)})
    async with started() as servers, servers.reserved() as client:
        assert servers.away == ()
        assert await url_of(client) == URLS[1]


async def test_components_that_are_away_everywhere_are_known() -> None:
    PlainClient.away.update(dict.fromkeys(URLS, ("vad",)))
    async with started() as servers:
        assert servers.is_ready
        assert servers.away == ("vad",)
