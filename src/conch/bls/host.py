"""Answer requests on one event loop: from `start` to the end of the answers."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import aclosing
from typing import Any, Protocol

import numpy as np

from conch.bls.call import UNLOADED, Components
from conch.bls.runtime import Runtime
from conch.bls.service import AccessRecord, Message, Responder, Service
from conch.wire.entry_points import HEALTH
from conch.wire.errors import OverloadedError, TranscriptionError, public_error

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 5.0
"""Seconds for services to free state in components. The rest expires there."""


class RequestComponents(Components, Protocol):
    def close(self, failure: TranscriptionError | None) -> None:
        """Refuse further calls, once and before the last answer, which may be an error."""


class Host:
    """Runs the requests of a service, any number at once, and answers health checks."""

    def __init__(
        self,
        service: Service[Any],
        runtime: Runtime,
        components: Callable[[Message, Responder], RequestComponents],
        executor: Executor,
    ) -> None:
        """Start the event loop on a thread of its own; `asyncio.to_thread` uses `executor`."""
        self._service, self._runtime, self._components = service, runtime, components
        self._answering: set[Future[None]] = set()
        """Requests in flight: an event loop keeps no reference to its tasks."""
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(executor)
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="event-loop", daemon=True
        )
        self._thread.start()

    def start(self, message: Message, responder: Responder) -> None:
        answer = self._answer(message, responder)
        answering = asyncio.run_coroutine_threadsafe(answer, self._loop)
        self._answering.add(answering)
        answering.add_done_callback(self._answered)

    def close(self, timeout_s: float, stop_calls: Callable[[], None]) -> None:
        """Free state in components, cancel requests that still run, and stop the event loop.

        After the requests, or `timeout_s` seconds, `stop_calls` ends the threads of calls.
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
        components = self._components(message, responder)
        record = AccessRecord(message.request_id, message.model)
        failure = None
        try:
            await self._run(message, responder, components, record)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError):  # only `close` cancels
                error = OverloadedError(UNLOADED)
            failure = public_error(error)
            responder.fail(failure)
        finally:
            try:
                components.close(failure)
            finally:  # without its last response, a request never ends
                responder.end()
                record.log(failure)

    async def _run(
        self, message: Message, responder: Responder, components: Components, record: AccessRecord
    ) -> None:
        if HEALTH in message.parameters:
            record.leave_out()
            text = self._runtime.health.to_json()
            responder.send({"RESULT": np.array([[text.encode()]], dtype=np.object_)})
            return
        has_answered = message.is_decoupled
        request = self._service.parse(message)
        async with aclosing(self._service.run(request, components, record)) as answers:
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

    def _answered(self, answering: "Future[None]") -> None:
        self._answering.discard(answering)
        if not answering.cancelled() and (error := answering.exception()):
            logger.error("an answer could not be sent", exc_info=error)
