"""The client for blocking code: it runs the client for asyncio on an event loop in a thread."""

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping
from concurrent.futures import Future
from functools import partial, wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from numpy.typing import NDArray

from conch.client import tensors
from conch.client.asynchronous import AsyncClient
from conch.client.endpoint import DEFAULT_URL
from conch.client.live import AsyncLiveStream, Resumption
from conch.wire.result import Transcript

END_S = 2.0
"""Seconds for the connections to close."""

Settings = ParamSpec("Settings")
Begun = TypeVar("Begun")

Answer = TypeVar("Answer")

Item = TypeVar("Item")


class Portal:
    """An event loop in a thread of its own, from the first call to `close`. Threads may share it.

    A call after `close` starts another thread.
    """

    def __init__(self, at_end: Callable[[], Awaitable[None]]) -> None:
        """Close the connections by `at_end`, in the event loop, before it ends."""
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


class LiveStream:
    """Send live audio chunk by chunk; `Client.live` returns one.

    Leaving its `with` block before `finish` ends the stream on the server, without a last text.
    """

    def __init__(self, portal: Portal, stream: AsyncLiveStream) -> None:
        self._portal, self._stream = portal, stream

    def __enter__(self) -> "LiveStream":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._portal.run(self._stream.__aexit__(*exc_info))

    @property
    def resumptions(self) -> tuple[Resumption, ...]:
        """The losses of a server after which the stream went on, in order."""
        return self._stream.resumptions

    def send(self, chunk: NDArray[Any]) -> Transcript:
        """Send the next samples and return what is new; see `AsyncLiveStream.send`."""
        return self._portal.run(self._stream.send(chunk))

    def finish(self, chunk: NDArray[Any] | None = None) -> Transcript:
        """Send the last samples and return the final transcript; see `AsyncLiveStream.finish`."""
        return self._portal.run(self._stream.finish(chunk))


def _blocking(
    method: Callable[Concatenate[AsyncClient, Settings], Begun],
    answered: Callable[[Portal, Begun], Answer],
) -> "Callable[Concatenate[Client, Settings], Answer]":
    """Return a method of `AsyncClient` as one of `Client`: `answered` waits for what it begins."""

    @wraps(method)
    def run(client: "Client", /, *args: Settings.args, **kwargs: Settings.kwargs) -> Answer:
        return answered(client._portal, method(client._client, *args, **kwargs))

    return run


class Client:
    """Send audio to a Conch server, or to a gateway in front of some, and wait for the transcript.

    Its methods take the arguments of those of `AsyncClient`, return what these give, and raise the
    same errors. `stream` returns an iterator, and `live` a `LiveStream`.

    Threads may share a client. It runs an `AsyncClient` in a thread of its own, from the first call
    to `close`. Its arguments are those of `AsyncClient` with the same names.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeout_s: float = tensors.DEFAULT_TIMEOUT_S,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        ca_cert: str | None = None,
    ) -> None:
        self._client = AsyncClient(
            url, timeout_s=timeout_s, api_key=api_key, headers=headers, ca_cert=ca_cert
        )
        self._portal = Portal(self._client.close)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._portal.close()

    transcribe = _blocking(AsyncClient.transcribe, Portal.run)
    """Transcribe one audio; see `AsyncClient.transcribe`."""
    transcribe_batch = _blocking(AsyncClient.transcribe_batch, Portal.run)
    """Transcribe several audios in one request; see `AsyncClient.transcribe_batch`."""
    stream = _blocking(AsyncClient.stream, Portal.each)
    """Yield a transcript of each segment of one audio; see `AsyncClient.stream`."""
    synthesize = _blocking(AsyncClient.synthesize, Portal.run)
    """Speak a text, and return all of its audio; see `AsyncClient.synthesize`."""
    synthesize_stream = _blocking(AsyncClient.synthesize_stream, Portal.each)
    """Yield the audio of a text piece by piece; see `AsyncClient.synthesize_stream`."""
    fit_voice = _blocking(AsyncClient.fit_voice, Portal.run)
    """Begin to fit a voice to recordings; see `AsyncClient.fit_voice`."""
    fitted_voice = _blocking(AsyncClient.fitted_voice, Portal.run)
    """Return a fitted voice; see `AsyncClient.fitted_voice`."""
    fitted_voices = _blocking(AsyncClient.fitted_voices, Portal.run)
    """Return the fitted voices; see `AsyncClient.fitted_voices`."""
    stop_fitting = _blocking(AsyncClient.stop_fitting, Portal.run)
    """End the work on a voice; see `AsyncClient.stop_fitting`."""
    remove_voice = _blocking(AsyncClient.remove_voice, Portal.run)
    """Delete a fitted voice; see `AsyncClient.remove_voice`."""
    live = _blocking(AsyncClient.live, LiveStream)
    """Open a live stream; see `AsyncClient.live`."""
    is_ready = _blocking(AsyncClient.is_ready, Portal.run)
    """Return whether the server takes requests for a model; see `AsyncClient.is_ready`."""
