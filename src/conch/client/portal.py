"""Run coroutines from blocking code, on an event loop in a thread."""

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, TypeVar

END_S = 2.0
"""Seconds for the connections to close."""

Item = TypeVar("Item")


class Portal:
    """An event loop in a thread of its own, from the first call to `close`. Threads may share it.

    A call after `close` starts another thread.

    Args:
        at_end: Closes the connections, in the event loop, before it ends.
    """

    def __init__(self, at_end: Callable[[], Awaitable[None]]) -> None:
        self._at_end = at_end
        self._starting = threading.Lock()
        self._running: _Running | None = None
        self._end: Callable[[], object] = lambda: None

    def run(self, coroutine: Coroutine[Any, Any, Item]) -> Item:
        """Return what a coroutine returns, or raise what it raises; Ctrl-C cancels it."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._started().loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # one that has failed is not changed by this
            raise

    def each(self, items: AsyncGenerator[Item, None]) -> Generator[Item, None, None]:
        """Yield the items of an asynchronous generator; leaving this one closes it."""
        running = self._started()
        turns = asyncio.Lock()  # closing waits for a step that is being cancelled
        end: Any = object()

        async def following() -> Item:
            async with turns:
                return await anext(items, end)

        async def close() -> None:
            async with turns:
                await items.aclose()

        try:
            while (item := self.run(following())) is not end:
                yield item
        finally:
            if running is self._running:  # or its end has closed the generator
                closing = asyncio.run_coroutine_threadsafe(close(), running.loop)
                if threading.current_thread() is not running.thread:  # where garbage is collected
                    closing.result()

    def close(self) -> None:
        """End the thread; what it runs is cancelled."""
        with self._starting:
            self._running = None
            self._end()

    def _started(self) -> "_Running":
        with self._starting:
            if self._running is None:
                started: Future[_Running] = Future()
                target = partial(asyncio.run, _serve(started, self._at_end))
                threading.Thread(target=target, name="conch-client", daemon=True).start()
                self._running = started.result()
                # At the end of the program too, where aiohttp would complain of open connections.
                self._end = weakref.finalize(self, _end, self._running)
            return self._running


class _Running(NamedTuple):
    loop: asyncio.AbstractEventLoop
    thread: threading.Thread
    stop: asyncio.Event


async def _serve(started: "Future[_Running]", at_end: Callable[[], Awaitable[None]]) -> None:
    running = _Running(asyncio.get_running_loop(), threading.current_thread(), asyncio.Event())
    started.set_result(running)
    await running.stop.wait()
    await at_end()


def _end(running: _Running) -> None:
    running.loop.call_soon_threadsafe(running.stop.set)
    if threading.current_thread() is not running.thread:
        running.thread.join(END_S)
