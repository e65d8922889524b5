"""The state that the handlers of one gateway share: keys, servers, and running work."""

import asyncio
import math
import os
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, aclosing, contextmanager, suppress
from typing import Any, TypeVar

from aiohttp import web
from prometheus_client import Gauge

from conch.client.triton_grpc import GRACE_S
from conch.gateway.config import GatewayConfig
from conch.gateway.errors import ApiError, overloaded
from conch.gateway.keys import KEYS_VARIABLE, ClientSecrets, Key, KeyRing, keys_of_environment
from conch.gateway.limits import (
    CGROUP,
    KEY_SHARE,
    UPLOAD_SHARE,
    Bucket,
    Limits,
    Room,
    memory_of_container,
)
from conch.gateway.metrics import GatewayMetrics
from conch.gateway.servers import Servers

Result = TypeVar("Result")

BREAK_OFF_S = 3.0
"""Seconds to answer clients whose work a stop has broken off."""
ARRIVING = 4
"""Requests whose bytes may come at once, for each that may be in work."""
MIN_READING = 4
"""Requests of Riva's API that may come at once however little room there is."""
MAX_WRITING = 2
"""Transcripts that are written in another format at once."""
MAX_TRANSCRIPTS = 64
"""Transcripts that are sent, or wait to be written."""
ANYBODY = "anybody"
"""Name of a caller where no key is needed."""


class Caller:
    """The client that sends a request, with the rest of the limits of its key."""

    def __init__(self, key: Key | None) -> None:
        """Begin with nothing used; the key is None where none is needed."""
        self.key = key
        self.limits = limits = key.limits if key else Limits()
        self.requests = Bucket(limits.requests_per_minute)
        self.audio_s = Bucket(limits.audio_s_per_minute)
        self.running: Counter[str] = Counter()
        """Slots taken, by activity."""

    @property
    def name(self) -> str:
        return self.key.name if self.key else ANYBODY

    def check(self) -> None:
        """Raise an ApiError if a limit is used up."""
        if wait_s := self.requests.wait_s(1):
            raise _used_up(f"{self.limits.requests_per_minute} requests a minute", wait_s)
        self.check_audio()

    def check_audio(self) -> None:
        """Raise an ApiError if the seconds of audio are used up."""
        if wait_s := self.audio_s.wait_s(1.0):
            limit = f"{self.limits.audio_s_per_minute:g} seconds of audio a minute"
            raise _used_up(limit, wait_s)


class Gateway:
    """The state of one gateway.

    It refuses work with an ApiError if it stops or is full, or the caller has used up a limit.
    """

    def __init__(self, config: GatewayConfig) -> None:
        """Read the keys; raise a ConfigError or ServerError if they or the servers are wrong."""
        self.config = config
        of_environment = keys_of_environment(os.environ.get(KEYS_VARIABLE, ""))
        self.keys = KeyRing(config.keys_file, of_environment)
        self.secrets = ClientSecrets()
        self.servers = Servers(config.servers)
        self.metrics = GatewayMetrics()
        most = 1e6 * config.max_upload_mb or UPLOAD_SHARE * memory_of_container(CGROUP)
        self.uploads = Room(int(most))
        """Bytes of the files of all requests."""
        self.reading = asyncio.Semaphore(max(MIN_READING, int(most / 1e6 / config.max_body_mb)))
        """Held while a request of Riva's API comes: as many of the largest as there is room for."""
        self.writing = asyncio.Semaphore(MAX_WRITING)
        """Held while a transcript is written in another format."""
        self.draining = asyncio.Event()
        """Set once the gateway has to stop: live sessions then end with their last text."""
        self._broken_off = asyncio.Event()
        """Set once there is no more time for running work."""
        self.freeing: set[asyncio.Task[None]] = set()
        """Tasks that end the streams of live sessions that are over."""
        self.watches = asyncio.Semaphore(config.max_sessions)
        """Held by each client of gRPC that watches whether it takes work."""
        self._running: Counter[str] = Counter()
        self._changed = asyncio.Event()
        """Set whenever a file or a session has ended."""
        self._callers: dict[str, Caller] = {}

    @property
    def model_aliases(self) -> Mapping[str, str]:
        """Further names of models, with the models of the servers that have names of their own."""
        own = {name: name for name in self.servers.models}
        return own | dict(self.config.model_aliases)

    def caller(self, key: Key | None) -> Caller:
        """Return the caller with a key; all without one are the same caller."""
        name = key.name if key else ""
        caller = self._callers.get(name)
        if caller is None or caller.key != key:
            caller = self._callers[name] = Caller(key)
        return caller

    @property
    def share(self) -> float:
        """The share of slots and of room that a key has at most."""
        return KEY_SHARE if self.keys.are_several else 1.0

    @property
    def largest_upload(self) -> int:
        """Bytes for which there is room if nobody else uploads."""
        return int(self.share * self.uploads.most)

    def file_of(
        self, caller: Caller, *, has_come: bool = False
    ) -> AbstractContextManager[Callable[[], None]]:
        """Count a file while it is uploaded, and in work once it has, or the function is called."""
        coming = "" if has_come else "files are uploaded"
        return self._counted(caller, coming, "files are in work", self.metrics.files)

    def text_of(
        self, caller: Caller, *, has_come: bool = False
    ) -> AbstractContextManager[Callable[[], None]]:
        """Count a text while it is sent, and spoken once it has, or the function is called."""
        coming = "" if has_come else "texts are sent"
        return self._counted(caller, coming, "texts are spoken", self.metrics.texts)

    def call_of(self, caller: Caller | None) -> AbstractContextManager[None]:
        """Count a call of Riva's API while its request comes; those for health have no caller."""
        activity = "calls have sent no request" if caller else "calls for health have sent none"
        most = ARRIVING * self.config.max_files
        return self._slot(caller or self.caller(None), activity, most)

    @contextmanager
    def transcript_of(self, caller: Caller) -> Iterator[None]:
        """Count a transcript while it is sent and written in another format."""
        with self._slot(caller, "transcripts are written", MAX_TRANSCRIPTS):
            self.count_request(caller)
            yield

    def count_request(self, caller: Caller) -> None:
        """Count a request that is neither a file nor a session."""
        self._check(caller)
        caller.requests.take(1)

    @contextmanager
    def session_of(self, caller: Caller, route: str) -> Iterator[None]:
        """Count a live session while it is open. Enter it before the WebSocket is accepted."""
        gauge, most = self.metrics.sessions.labels(route), self.config.max_sessions
        activity = "live sessions are open"
        self._check(caller)
        if caller.limits.streams and caller.running[activity] >= caller.limits.streams:
            raise _used_up(f"{caller.limits.streams} live sessions at once", 1.0)
        with self._slot(caller, activity, most), gauge.track_inprogress():
            caller.requests.take(1)
            yield

    @contextmanager
    def _counted(
        self, caller: Caller, coming: str, work: str, gauge: Gauge
    ) -> Iterator[Callable[[], None]]:
        """Take a slot for a request that is coming; the function takes one for its work instead.

        So those who send slowly, or nothing, keep no slot from those who have sent all.
        """
        self._check(caller)
        most = self.config.max_files
        self._check_slot(caller, work, most)  # or it would come in vain
        with ExitStack() as held, gauge.track_inprogress():

            def begin() -> None:
                held.close()
                held.enter_context(self._slot(caller, work, most))

            if coming:
                held.enter_context(self._slot(caller, coming, ARRIVING * most))
            else:
                begin()
            caller.requests.take(1)
            yield begin

    @contextmanager
    def _slot(self, caller: Caller, activity: str, most: int) -> Iterator[None]:
        self._check_slot(caller, activity, most)
        self._running[activity] += 1
        caller.running[activity] += 1
        try:
            yield
        finally:
            self._running[activity] -= 1
            caller.running[activity] -= 1
            self._changed.set()

    def _check_slot(self, caller: Caller, activity: str, most: int) -> None:
        if self._running[activity] >= most:
            raise overloaded(f"{most} {activity}; try again later")
        if caller.running[activity] >= (own := math.ceil(self.share * most)):
            raise overloaded(f"{own} {activity} for this key, the most of one key; try again later")

    def count_audio(self, caller: Caller, route: str, seconds: float) -> None:
        """Count audio that was recognised for a caller."""
        self.metrics.audio_seconds.labels(route, caller.name).inc(seconds)
        caller.audio_s.take(seconds)

    async def drain(self, timeout_s: float) -> bool:
        """Take no new work and wait for running work; return whether all of it has ended."""
        self.draining.set()
        self.servers.give_up()
        try:
            await asyncio.wait_for(self._until_idle(), timeout_s)
        except asyncio.TimeoutError:
            self._broken_off.set()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._until_idle(), BREAK_OFF_S)
            return False
        return True

    async def unless_broken_off(self, work: Awaitable[Result]) -> Result:
        """Return the result of work; raise an ApiError once a stop has no more time for it."""
        running = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._broken_off.wait())
        try:
            await asyncio.wait([running, stop], return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                raise overloaded("this gateway stops and could not finish this; send it again")
            return running.result()
        finally:
            stop.cancel()
            await cancelled(running)

    async def unbroken(
        self,
        pieces: AsyncGenerator[Result, None],
        wait: Callable[["asyncio.Future[Result]"], Awaitable[Any]] = lambda coming: coming,
    ) -> AsyncGenerator[Result, None]:
        """Yield pieces, each after `wait`, and raise errors as `unless_broken_off` does."""
        async with aclosing(pieces):
            while True:
                coming = asyncio.ensure_future(self.unless_broken_off(anext(pieces)))
                try:
                    await wait(coming)
                    piece = coming.result()
                except StopAsyncIteration:
                    return
                finally:
                    # A piece, or the end, may be about to come: see `conch.client.triton_grpc`.
                    await cancelled(coming, GRACE_S)
                yield piece

    async def wait_for_streams(self, timeout_s: float) -> None:
        """Wait until the streams of sessions that are over have ended on their servers."""
        if self.freeing:
            await asyncio.wait(self.freeing, timeout=timeout_s)

    async def _until_idle(self) -> None:
        while any(self._running.values()):
            self._changed.clear()
            await self._changed.wait()

    def _check(self, caller: Caller) -> None:
        if self.draining.is_set():
            raise overloaded("this gateway is about to stop; try again")
        caller.check()


async def cancelled(task: "asyncio.Future[Any]", grace_s: float = 0.0) -> None:
    """Cancel a task that still runs after `grace_s` seconds, and wait for its end."""
    while not task.done():
        # A second cancellation of the caller must not leave the task behind.
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task], timeout=grace_s)
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # marks it as seen: its caller has asked for it


def _used_up(limit: str, wait_s: float) -> ApiError:
    return ApiError(
        429,
        f"this key has used up its limit of {limit}; try again in {wait_s:.0f} s",
        code="rate_limit_exceeded",
        headers={"Retry-After": str(max(1, round(wait_s)))},
    )


GATEWAY = web.AppKey("gateway", Gateway)
CALLER = web.RequestKey("caller", Caller)
REQUEST_ID = web.RequestKey("request_id", str)
FAILURE = web.RequestKey("failure", ApiError)
"""The error that a request was answered with."""
