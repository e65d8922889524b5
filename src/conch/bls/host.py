"""Answer requests on one event loop: from `start` to the end of the answers."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

import numpy as np

from conch.bls.access_log import AccessRecord
from conch.bls.call import Components
from conch.bls.runtime import Runtime
from conch.bls.service import Answer, Job, Message, Responder, Service
from conch.wire import health
from conch.wire.errors import OverloadedError, TranscriptionError, public_error

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 5.0
"""Seconds for services to free state in components. The rest expires there."""


class RequestComponents(Components, Protocol):
    """Components for the calls of one request."""

    def close(self) -> None:
        """Refuse further calls; called before the last answer of the request."""
        ...


class RequestSpan(Protocol):
    """The span of a traced request."""

    def end(self, error: TranscriptionError | None) -> None:
        """End it; `error` is sent to the client in place of an answer."""
        ...


Span = TypeVar("Span", bound=RequestSpan)


class Server(Protocol[Span]):
    """The server that a host runs in."""

    def span(self, message: Message) -> Span | None:
        """Return a span that begins now, or None for a request that is not traced."""
        ...

    def components(
        self, message: Message, responder: Responder, span: Span | None
    ) -> RequestComponents:
        """Return components for the calls of a request."""
        ...

    def answered(self, message: Message) -> None:
        """Note that a request has its answers."""
        ...


class Host:
    """Runs the requests of a service, any number at once.

    It also answers health checks, and writes spans and the access log.
    """

    def __init__(
        self,
        service: Service[Any],
        runtime: Runtime,
        server: Server[Any],
        executor: Executor,
    ) -> None:
        """Start the event loop on a thread of its own.

        Args:
            service: The service.
            runtime: Limits, failover and metrics, shared by all requests.
            server: The server that it runs in.
            executor: Threads for `asyncio.to_thread`.
        """
        self._service, self._runtime, self._server = service, runtime, server
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(executor)
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="event-loop", daemon=True
        )
        self._thread.start()

    def start(self, message: Message, responder: Responder) -> None:
        """Start to answer a request, without waiting for it."""
        answer = self._answer(message, responder)
        asyncio.run_coroutine_threadsafe(answer, self._loop).add_done_callback(_log_failure)

    def close(self, timeout_s: float, stop_calls: Callable[[], None]) -> None:
        """Free state in components, cancel requests that still run, and stop the event loop.

        Args:
            timeout_s: Longest time for requests in flight to be cancelled, in seconds.
            stop_calls: Ends the threads in which calls wait; called when requests have ended.
        """
        finished = asyncio.run_coroutine_threadsafe(self._finish(), self._loop)
        try:
            finished.result(timeout_s)
        except TimeoutError:
            logger.error("requests in flight could not be ended")
        stop_calls()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _answer(self, message: Message, responder: Responder) -> None:
        span = self._server.span(message)
        components = self._server.components(message, responder, span)
        record = AccessRecord(message.request_id, message.model)
        failure = None
        try:
            await self._run(message, responder, Job(components, record))
        except (Exception, asyncio.CancelledError) as error:
            failure = _public(error)
            responder.fail(failure)
        finally:
            components.close()
            responder.end()
            self._server.answered(message)
            record.log(failure)
            if span:
                span.end(failure)

    async def _run(self, message: Message, responder: Responder, job: Job) -> None:
        if health.PARAMETER in message.parameters:
            job.record.leave_out()
            responder.send(_health(self._runtime))
            return
        has_answered = message.is_decoupled
        async with aclosing(self._service.run(self._service.parse(message), job)) as answers:
            async for answer in answers:
                responder.send(answer)
                has_answered = True
        if not has_answered:
            raise RuntimeError("the service has not answered")

    async def _finish(self) -> None:
        await self._service.close(CLOSE_TIMEOUT_S)
        # Repeat: a cancelled task may have started another one.
        while running := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        await self._loop.shutdown_asyncgens()


def _log_failure(answer: "Future[None]") -> None:
    if not answer.cancelled() and (error := answer.exception()):
        logger.error("an answer could not be sent", exc_info=error)


def _public(error: Exception | asyncio.CancelledError) -> TranscriptionError:
    if isinstance(error, asyncio.CancelledError):  # only `close` cancels
        error = OverloadedError("the model is being unloaded; try again")
    return public_error(error)


def _health(runtime: Runtime) -> Answer:
    return {"RESULT": np.array([[health.to_json(runtime.away).encode()]], dtype=np.object_)}
