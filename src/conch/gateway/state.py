"""What the handlers of one gateway share: its keys, its servers, and what is running."""

import asyncio
import os
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from aiohttp import web

from conch.gateway.config import GatewayConfig
from conch.gateway.errors import ApiError, overloaded
from conch.gateway.keys import KEYS_VARIABLE, ClientSecrets, Key, KeyRing, keys_of_environment
from conch.gateway.limits import (
    CGROUP,
    UPLOAD_SHARE,
    Allowance,
    Limits,
    Room,
    memory_of_container,
)
from conch.gateway.metrics import GatewayMetrics
from conch.gateway.servers import Servers

Result = TypeVar("Result")

BREAK_OFF_S = 3.0
"""Seconds to tell clients that a stop has broken off what they wait for."""
MAX_WRITING = 2
"""Transcripts that are written in another format at once."""
ANYBODY = "anybody"
"""Name of a caller where no key is needed."""


@dataclass(slots=True, eq=False)
class Caller:
    """Who sends a request."""

    key: Key | None
    """None where no key is needed."""
    allowance: Allowance

    @property
    def name(self) -> str:
        """Return the name for logs and metrics."""
        return self.key.name if self.key else ANYBODY


@dataclass(slots=True, eq=False)
class Session:
    """A live session that is open."""

    code: int = 1000
    """Code of its close frame."""


class Gateway:
    """The state of one gateway."""

    def __init__(self, config: GatewayConfig) -> None:
        """Read the keys.

        Raises:
            ConfigError: the keys cannot be read.
            ServerError: the URL of a server is not one of gRPC.
        """
        self.config = config
        of_environment = keys_of_environment(os.environ.get(KEYS_VARIABLE, ""))
        self.keys = KeyRing(config.keys_file, of_environment)
        self.secrets = ClientSecrets()
        self.servers = Servers(config.servers)
        self.metrics = GatewayMetrics()
        most = 1e6 * config.max_upload_mb or UPLOAD_SHARE * memory_of_container(CGROUP)
        self.uploads = Room(int(most))
        """What the files of all requests take."""
        self.writing = asyncio.Semaphore(MAX_WRITING)
        """Held while a transcript is written in another format."""
        self.draining = asyncio.Event()
        """Set once the gateway is asked to stop: live sessions then end with their last text."""
        self._broken_off = asyncio.Event()
        """Set once there is no more time for what is still running."""
        self.freeing: set[asyncio.Task[None]] = set()
        """Each ends the stream of a live session that is over."""
        self._num_files = 0
        self._num_sessions = 0
        self._changed = asyncio.Event()
        """Set whenever a file or a session has ended."""
        self._callers: dict[str, Caller] = {}

    def caller(self, key: Key | None) -> Caller:
        """Return the caller with a key; all without one are the same caller."""
        name = key.name if key else ""
        caller = self._callers.get(name)
        limits = key.limits if key else Limits()
        if caller is None or caller.allowance.limits != limits:
            caller = Caller(key, Allowance(limits, time.monotonic()))
            self._callers[name] = caller
        return caller

    @contextmanager
    def file_of(self, caller: Caller) -> Iterator[None]:
        """Count a file while it is received and recognised.

        Raises:
            ApiError: the gateway stops or is full, or the caller has used up a limit.
        """
        self._check(caller)
        if self._num_files >= self.config.max_files:
            raise overloaded(f"{self.config.max_files} files are in work; try again later")
        caller.allowance.requests.take(1, time.monotonic())
        self._num_files += 1
        self.metrics.files.inc()
        try:
            yield
        finally:
            self._num_files -= 1
            self.metrics.files.dec()
            self._changed.set()

    def count_request(self, caller: Caller) -> None:
        """Count a request that is neither a file nor a session.

        Raises:
            ApiError: the gateway stops, or the caller has used up a limit.
        """
        self._check(caller)
        caller.allowance.requests.take(1, time.monotonic())

    @contextmanager
    def session_of(self, caller: Caller, route: str) -> Iterator[Session]:
        """Count a live session while it is open. Enter it before the WebSocket is accepted.

        Raises:
            ApiError: the gateway stops or is full, or the caller has used up a limit.
        """
        self._check(caller)
        allowance = caller.allowance
        if self._num_sessions >= self.config.max_sessions:
            raise overloaded(f"{self.config.max_sessions} live sessions are open; try again later")
        if allowance.limits.streams and allowance.streams >= allowance.limits.streams:
            raise _used_up(f"{allowance.limits.streams} live sessions at once", 1.0)
        allowance.requests.take(1, time.monotonic())
        session = Session()
        allowance.streams += 1
        self._num_sessions += 1
        self.metrics.sessions.labels(route).inc()
        try:
            yield session
        finally:
            allowance.streams -= 1
            self._num_sessions -= 1
            self.metrics.sessions.labels(route).dec()
            self.metrics.sessions_ended.labels(route, caller.name, str(session.code)).inc()
            self._changed.set()

    def heard(self, caller: Caller, route: str, seconds: float) -> None:
        """Count audio that was recognised for a caller."""
        self.metrics.audio_seconds.labels(route, caller.name).inc(seconds)
        caller.allowance.audio_s.take(seconds, time.monotonic())

    def check_audio(self, caller: Caller) -> None:
        """Check whether a caller has seconds of audio left.

        Raises:
            ApiError: they are used up.
        """
        allowance = caller.allowance
        if wait_s := allowance.audio_s.wait_s(1.0, time.monotonic()):
            limit = f"{allowance.limits.audio_s_per_minute:g} seconds of audio a minute"
            raise _used_up(limit, wait_s)

    async def drain(self, timeout_s: float) -> bool:
        """Take no new work and wait for what is running; return whether all of it has ended."""
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
        """Return the result of work that is cancelled when a stop has no more time for it.

        Raises:
            ApiError: it was cancelled so.
        """
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

    async def wait_for_streams(self, timeout_s: float) -> None:
        """Wait until the streams of sessions that are over have ended on their servers."""
        if self.freeing:
            await asyncio.wait(self.freeing, timeout=timeout_s)

    async def _until_idle(self) -> None:
        while self._num_files or self._num_sessions:
            self._changed.clear()
            await self._changed.wait()

    def _check(self, caller: Caller) -> None:
        if self.draining.is_set():
            raise overloaded("this gateway is about to stop; try again")
        allowance, now = caller.allowance, time.monotonic()
        if wait_s := allowance.requests.wait_s(1, now):
            raise _used_up(f"{allowance.limits.requests_per_minute} requests a minute", wait_s)
        self.check_audio(caller)


async def cancelled(task: "asyncio.Future[Any]", grace_s: float = 0.0) -> None:
    """Cancel a task that still runs, and wait for its end.

    Args:
        task: The task.
        grace_s: Seconds in which it may end by itself.
    """
    while not task.done():
        # A second cancellation of the caller must not leave the task behind.
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task], timeout=grace_s)
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # whoever cares has asked for it


def _used_up(limit: str, wait_s: float) -> ApiError:
    return ApiError(
        429,
        f"this key has used up its limit of {limit}; try again in {wait_s:.0f} s",
        code="rate_limit_exceeded",
        headers={"Retry-After": str(max(1, round(wait_s)))},
    )


GATEWAY = web.AppKey("gateway", Gateway)
"""Where an application holds its gateway."""
CALLER = web.RequestKey("caller", Caller)
"""Where a request holds its caller."""
REQUEST_ID = web.RequestKey("request_id", str)
"""Where a request holds its id."""
