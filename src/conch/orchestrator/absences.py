"""Components that are away: their process has died, or they are being replaced.

What Triton 2.51 does with calls then was found with `kill -9` of a component's process:

- A call that the process was to compute fails a second later at most, with "Stub process 'vad_0_0'
  is not healthy". Those behind it in the queue fail one batch a second, whatever their timeouts,
  even after the model has been loaded again. So a call is given up as soon as its model is back.
- The model counts as ready until it is unloaded. From then to the end of the load that follows, it
  counts as not ready, and calls fail at once.
- The streams of a component with sequences are gone: the next call of one without START fails.
"""

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from conch.wire.errors import ComponentError

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

PATIENCE_S = 10.0
"""Longest time to wait for a component that is away, in seconds."""
SETTLE_S = 0.25
"""Seconds after which a component that still counts as ready may have been replaced before its
failure was known."""
SETTLE_AGAIN_S = 4.0
"""The same, if it was away a moment ago: then the replacement is yet to come."""
RECENT_S = 10.0
"""Seconds that are such a moment."""
LEAST_POLL_S, MOST_POLL_S = 0.02, 0.2
"""Seconds between two looks at a component that is away; each wait is half as long again."""


class ComponentAwayError(ComponentError):
    """A component's process has died, or the component is being replaced.

    The call may be repeated. What the component kept of streams is lost.
    """


class StreamLostError(ComponentAwayError):
    """A component knows nothing of a stream that was under way."""


class Loaded(Protocol):
    """Tells which components a server has."""

    async def is_loaded(self, model: str) -> bool:
        """Return whether the server has a component."""
        ...


class Absences:
    """The components that have answered before, and those of them that are away now.

    One object serves all requests: the first call that fails makes the others wait.
    """

    def __init__(self, server: Loaded) -> None:
        """Start with no component known.

        Args:
            server: Tells whether a component is back.
        """
        self._server = server
        self._known: set[str] = set()
        self._away: dict[str, asyncio.Task[bool]] = {}
        self._back_at: dict[str, float] = {}
        self._in_flight: defaultdict[str, set[asyncio.Task[Any]]] = defaultdict(set)
        self._given_up: set[asyncio.Task[Any]] = set()

    def knows(self, model: str) -> bool:
        """Return whether a component was there before: it may come back."""
        return model in self._known

    def is_away(self, model: str) -> bool:
        """Return whether a component is away."""
        return model in self._away

    async def is_loaded(self, model: str) -> bool:
        """Return whether the server has a component; wait for one that is being replaced."""
        if model not in self._away:
            if await self._server.is_loaded(model):
                self._known.add(model)
                return True
            if model not in self._known:
                return False
        self.begin(model, math.inf)
        return await self.over(model)

    async def call(self, model: str, call: Coroutine[Any, Any, Result]) -> Result:
        """Make a call, and give it up when its component is back from an absence.

        Args:
            model: Name of the component.
            call: The call.

        Raises:
            ComponentAwayError: the call was given up.
        """
        task = asyncio.create_task(call)
        self._in_flight[model].add(task)
        try:
            found = await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if task not in self._given_up or (current and current.cancelling()):
                raise
            raise ComponentAwayError(f"{model} was replaced while it was called") from None
        finally:
            self._in_flight[model].discard(task)
            self._given_up.discard(task)
        self._known.add(model)
        return found

    def begin(self, model: str, called: float) -> None:
        """Note that a call has found its component away.

        Args:
            model: Name of the component.
            called: When the call was made, on the clock of the event loop. Nothing is noted if the
                component has come back since.
        """
        if model in self._away or called < self._back_at.get(model, -math.inf):
            return
        logger.warning("component %s is away; its calls wait for it", model)
        self._away[model] = asyncio.create_task(self._watch(model))

    async def over(self, model: str) -> bool:
        """Wait until a component is not away; return whether it is back, and not given up."""
        watch = self._away.get(model)
        # Not cancelled with one of the requests that wait.
        return watch is None or await asyncio.shield(watch)

    async def _watch(self, model: str) -> bool:
        now = asyncio.get_running_loop().time
        began = now()
        is_recent = began - self._back_at.get(model, -math.inf) < RECENT_S
        settle_s = SETTLE_AGAIN_S if is_recent else SETTLE_S
        poll_s = LEAST_POLL_S
        is_back = was_unloaded = False
        try:
            while not is_back and now() - began < PATIENCE_S:
                await asyncio.sleep(poll_s)
                poll_s = min(MOST_POLL_S, 1.5 * poll_s)
                is_ready = await self._server.is_loaded(model)
                was_unloaded = was_unloaded or not is_ready
                is_back = is_ready and (was_unloaded or now() - began >= settle_s)
        finally:
            del self._away[model]
        took_s = now() - began
        if is_back:
            logger.warning("component %s is back after %.1f s", model, took_s)
            self._back_at[model] = now()
            if was_unloaded:
                self._give_up(model)
        else:
            logger.error("component %s has not come back within %.1f s", model, took_s)
            # If it was unloaded for good, its absence is an answer from now on.
            self._known.discard(model)
        return is_back

    def _give_up(self, model: str) -> None:
        """Cancel the calls in flight: they wait for a process that is gone."""
        for task in self._in_flight[model]:
            self._given_up.add(task)
            task.cancel()
