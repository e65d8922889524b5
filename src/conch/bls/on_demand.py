"""Load components when a request first needs them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from conch.wire.errors import ComponentError

logger = logging.getLogger(__name__)

PAUSE_S = 10.0
"""Seconds after a failure for which a component is not loaded again: requests get its error."""


class OnDemand:
    """The components that are loaded on demand: each once, however many requests wait for it."""

    def __init__(
        self,
        models: Iterable[str],
        is_loaded: Callable[[str], Awaitable[bool]],
        load: Callable[[str], Awaitable[None]],
    ) -> None:
        """`load` raises a ComponentError that says why it cannot."""
        self.models = frozenset(models)
        self._is_loaded, self._load = is_loaded, load
        self._loads: dict[str, asyncio.Task[str]] = {}
        """What runs, or has failed in the last PAUSE_S; each returns what is wrong."""

    async def need(self, model: str) -> None:
        """Load a component, unless the server has it, or raise a ComponentError."""
        if model not in self._loads:
            self._loads[model] = asyncio.create_task(self._loaded(model))
        # A request that is given up leaves the load to the others.
        if problem := await asyncio.shield(self._loads[model]):
            raise ComponentError(problem)

    async def _loaded(self, model: str) -> str:
        loop = asyncio.get_running_loop()
        began, pause_s = loop.time(), 0.0
        try:
            if not await self._is_loaded(model):
                logger.info("component %s is being loaded: a request needs it", model)
                await self._load(model)
                logger.info("component %s is loaded after %.1f s", model, loop.time() - began)
            return ""
        except ComponentError as error:
            pause_s = PAUSE_S
            logger.error("component %s cannot be loaded: %s", model, error)
            return (
                f"model {model} cannot be loaded: {error}; see the server's log. It is loaded "
                f"again by a request in {PAUSE_S:g} s or later"
            )
        finally:
            loop.call_later(pause_s, self._loads.pop, model, None)
