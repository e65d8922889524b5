"""The Conch servers behind a gateway: the least busy ready one gets the next work."""

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any, TypeVar

from conch.client import AsyncClient, tensors
from conch.client.live import AsyncLiveStream, Infer
from conch.client.poison import Losses
from conch.client.tensors import UnavailableError
from conch.families import replace_voices
from conch.wire.entry_points import ENTRY_POINTS
from conch.wire.errors import (
    ConchError,
    DeadlineError,
    ServerError,
    ServerLostError,
    UnreachableError,
)
from conch.wire.named_models import component_of
from conch.wire.needs import PATHS, components_of_path
from conch.wire.options import RecognitionOptions
from conch.wire.result import Transcript

logger = logging.getLogger(__name__)

POLL_S = 2.0
"""Seconds between two looks while all servers are ready."""
HEAL_S = 30.0
"""Seconds after the loss of the last server for which files and live sessions wait: `conch serve`
heals it."""
HEAL_POLL_S = 0.2
"""Seconds between two looks while a server is not ready."""
LONGEST_S = 86_400.0
"""Seconds to wait for an answer: the maximum of the option `deadline_ms`."""
SILENT_S = 10.0
"""Seconds after which a ready server whose `speech` does not answer counts as hung."""
READY_TIMEOUT_S = 2.0
ALONE_S = 30.0
"""Most seconds that files which have lost a server wait for one another: a file that ends servers
does so soon."""

_OF_PATHS = {name for path in PATHS for name in components_of_path(path)}
"""Components that a path cannot do without. Others are for options of a request."""

Answer = TypeVar("Answer")


def connected(url: str) -> AsyncClient:
    """Return a client; raise a ServerError if its URL is not of gRPC, which alone can cancel."""
    if not url.startswith(("grpc://", "grpcs://")):
        raise ServerError(f"a gateway speaks gRPC with its servers; {url!r} is no grpc:// URL")
    # A key in the environment is for gateways, and this server is behind one.
    return AsyncClient(url, api_key="", timeout_s=LONGEST_S, uploads=1)


class Server:
    def __init__(self, url: str, client: AsyncClient) -> None:
        self.url, self.client = url, client
        self.is_ready = False
        self._state = ""  # what the log said last
        self.away: tuple[str, ...] = ()
        """Components that have died, hang or are being replaced, without those of options."""
        self.voices: tuple[str, ...] = ()
        """Further voices of the server, as `conch.families.add_voices` takes them."""
        self.models: tuple[str, ...] = ()
        """Values of the option `model` there."""
        self._answered_at = time.monotonic()
        """When `speech` answered last, or the server was not ready."""
        self.num_running = 0
        self.alone = asyncio.Lock()
        """Held by a file that has lost a server, and may end this one too: other files that were
        lost with it must not be lost again."""

    async def look(self) -> None:
        """Find out whether it is ready."""
        reason = ""
        try:
            ready = await self.client.is_ready(timeout_s=READY_TIMEOUT_S)
        except ConchError as error:
            ready, reason = False, f": {error}"
        away = await self._components_away() if ready else ()
        if not ready:
            self._answered_at = time.monotonic()
        if away != self.away:
            logger.info("components of %s that are away: %s", self.url, ", ".join(away) or "none")
        self.away = away
        state = "ready" if ready else "not ready"
        if state != self._state:
            logger.info("server %s is %s%s", self.url, state, reason)
        self._state = state
        self.is_ready = ready

    async def infer(self, request: tensors.Request) -> Transcript:
        try:
            return await self.client.infer(request)
        except ServerError as error:
            self.note(error)
            raise

    def note(self, error: ConchError, level: int = logging.WARNING) -> None:
        """Log by what a request has failed here, and do not blame it if the server stopped."""
        logger.log(level, "server %s failed: %s", self.url, error)
        if isinstance(error, ServerLostError) and not self.is_ready:
            error.had_request = False

    async def _components_away(self) -> tuple[str, ...]:
        try:
            health = await self.client.health(timeout_s=READY_TIMEOUT_S)
            away = tuple(name for name in health.away if component_of(name) in _OF_PATHS)
            self.models = health.models
            self.voices = health.voices
        except DeadlineError:
            # Triton reports a hung model as ready. A busy one may be late.
            is_late = time.monotonic() - self._answered_at > SILENT_S
            return ENTRY_POINTS[:1] if is_late else self.away
        except ConchError:
            away = ()
        self._answered_at = time.monotonic()
        return away


class Servers:
    """All servers behind a gateway."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        connect: Callable[[str], AsyncClient] = connected,
        poll_s: float = POLL_S,
        heal_poll_s: float = HEAL_POLL_S,
        heal_s: float = HEAL_S,
    ) -> None:
        self._servers = [Server(url, connect(url)) for url in urls]
        self._poll_s, self._heal_poll_s, self.heal_s = poll_s, heal_poll_s, heal_s
        self._looking: asyncio.Task[None] | None = None
        self._ready_at = -math.inf
        """When any server was ready last."""
        self.may_come_back = True
        self.losses = Losses()
        """Servers that each file has lost, by its digest."""

    async def start(self) -> None:
        """Poll all servers from now on."""
        await self._look()
        self._looking = asyncio.create_task(self._keep_looking())

    def give_up(self) -> None:
        """Wait no more for lost servers: they may have been stopped with the gateway."""
        self.may_come_back = False

    async def close(self) -> None:
        """Close the connections; requests in flight fail."""
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking
        for server in self._servers:
            await server.client.close()

    @property
    def is_ready(self) -> bool:
        return self.num_ready > 0

    @property
    def away(self) -> tuple[str, ...]:
        """Components that are away from the ready server that lacks fewest."""
        return min((item.away for item in self._servers if item.is_ready), key=len, default=())

    @property
    def clients(self) -> list[AsyncClient]:
        return [server.client for server in self._servers if server.is_ready]

    @property
    def models(self) -> tuple[str, ...]:
        """The values of the option `model` that ready servers take, sorted."""
        ready = (server.models for server in self._servers if server.is_ready)
        return tuple(sorted(set().union(*ready)))

    @property
    def num_ready(self) -> int:
        return sum(server.is_ready for server in self._servers)

    async def ready_models(self, models: Sequence[str]) -> set[str]:
        """Return which of the models a ready server has, or loads when a request needs them."""
        server = self.least_busy(())
        if server is None:
            return set()
        ready = await asyncio.gather(
            *(server.client.is_ready(name, timeout_s=READY_TIMEOUT_S) for name in models)
        )
        loaded = {name for name, is_ready in zip(models, ready, strict=True) if is_ready}
        on_demand: tuple[str, ...] = ()
        with suppress(ConchError):
            on_demand = (await server.client.health(timeout_s=READY_TIMEOUT_S)).on_demand
        return loaded | set(models).intersection(on_demand)

    async def answer(self, ask: Callable[[AsyncClient], Awaitable[Answer]], name: str) -> Answer:
        """Return the answer of a server; if it cannot be reached, ask the next one.

        The request waits while all servers are lost, or while a ready one replaces the process that
        answers such requests. It may then go to a server that it has tried. Requests that have lost
        a server go to another one alone, one at a time. After the second loss they raise a
        PoisonError. Raise a ServerError if no server can be reached.
        """
        tried: list[Server] = []
        until = math.inf
        while True:
            self.losses.check(name)
            is_suspect = self.losses.is_suspect(name)
            server = self.least_busy(tried, is_suspect=is_suspect) or await self._first_back()
            if server is None:
                raise _none_ready()
            server.num_running += 1
            try:
                async with _held(server.alone) if is_suspect else nullcontext():
                    if not server.is_ready:
                        continue  # lost while this one waited
                    return await self._attempt(server, ask, name)
            except (ServerError, UnavailableError) as error:
                if server not in tried:
                    tried.append(server)
                    until = min(until, time.monotonic() + self.heal_s)
                elif _is_replacing(error) and self.may_come_back and time.monotonic() < until:
                    await asyncio.sleep(self._heal_poll_s)
                else:
                    raise
            finally:
                server.num_running -= 1

    async def _attempt(
        self, server: Server, ask: Callable[[AsyncClient], Awaitable[Answer]], name: str
    ) -> Answer:
        with self.losses.attempt(name):
            try:
                return await ask(server.client)
            except (ServerError, UnavailableError) as error:
                # A request that waits would repeat it.
                server.note(error, logging.DEBUG if _is_replacing(error) else logging.WARNING)
                await server.look()
                raise

    @asynccontextmanager
    async def reserved(self) -> "AsyncIterator[SessionClient]":
        """Yield the client of a live session; raise a ServerError if no server is ready."""
        server = self.least_busy(())
        if server is None:
            raise _none_ready()
        client = SessionClient(self, server)
        try:
            yield client
        except ServerError:
            await client.server.look()  # otherwise it gets the next sessions too
            raise
        finally:
            client.close()

    def least_busy(self, without: Sequence[Server], *, is_suspect: bool = False) -> Server | None:
        def load(server: Server) -> tuple[bool, int, int]:
            return is_suspect and server.alone.locked(), len(server.away), server.num_running

        ready = [item for item in self._servers if item.is_ready and item not in without]
        return min(ready, key=load, default=None)

    async def _first_back(self) -> Server | None:
        """Return the first server that is ready again, None if none is within HEAL_S."""
        while (server := self.least_busy(())) is None:
            if not self.may_come_back or time.monotonic() >= self._ready_at + self.heal_s:
                return None
            await asyncio.sleep(self._heal_poll_s)
            await self._look()
        return server

    async def _look(self) -> None:
        await asyncio.gather(*(server.look() for server in self._servers))
        replace_voices(voices for server in self._servers for voices in server.voices)
        if self.is_ready:
            self._ready_at = time.monotonic()

    async def _keep_looking(self) -> None:
        while True:
            all_ready = self.num_ready == len(self._servers)
            await asyncio.sleep(self._poll_s if all_ready else self._heal_poll_s)
            await self._look()


def _is_replacing(error: ConchError) -> bool:
    """Return whether a server has answered that it replaces what answers such requests."""
    if isinstance(error, ServerLostError):
        return not (error.had_request or isinstance(error, UnreachableError))
    return isinstance(error, UnavailableError)


def recognition_request(
    file: bytes | tensors.StoredFile,
    options: RecognitionOptions,
    request_id: str,
    entry_point: str = ENTRY_POINTS[0],
) -> tensors.Request:
    others = 16_000, None, entry_point, request_id, options
    return tensors.build([file], *others, default_timeout_s=LONGEST_S)


class SessionClient:
    """The client of one session: that of its server, and of another one once this is lost."""

    def __init__(self, servers: Servers, server: Server) -> None:
        self._servers, self.server = servers, server
        self._is_open = True
        server.num_running += 1
        self.synthesize_stream = server.client.synthesize_stream

    def close(self) -> None:
        """Look for no further server."""
        self._is_open = False
        self.server.num_running -= 1

    def live(self, **settings: Any) -> AsyncLiveStream:
        """Open a live stream, which goes on in another server within HEAL_S if this one is lost."""
        return AsyncLiveStream(
            self.server.infer,
            model=ENTRY_POINTS[0],
            keep_segments=False,
            resume_s=self._servers.heal_s,
            elsewhere=self._elsewhere,
            **settings,
        )

    async def _elsewhere(self) -> Infer:
        """Return what asks another ready server, or the one that was lost if it alone is ready."""
        servers, lost = self._servers, self.server
        if lost.is_ready:
            await lost.look()
        if not self._is_open:
            raise ServerError("the session has ended")
        next_server = servers.least_busy((lost,)) or servers.least_busy(())
        if next_server is None:
            raise _none_ready(UnreachableError if servers.may_come_back else ServerError)
        lost.num_running -= 1
        next_server.num_running += 1
        self.server = next_server
        return next_server.infer


def _none_ready(error_type: type[ServerError] = ServerError) -> ServerError:
    return error_type("no speech server is ready; try again later")


@asynccontextmanager
async def _held(lock: asyncio.Lock) -> AsyncIterator[None]:
    """Hold a lock within the block, but at most ALONE_S."""
    await lock.acquire()
    release = asyncio.get_running_loop().call_later(ALONE_S, lock.release)
    try:
        yield
    finally:
        if release.when() > asyncio.get_running_loop().time():
            release.cancel()
            lock.release()
