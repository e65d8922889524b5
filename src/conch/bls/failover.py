"""Wait for components that died, hung or are not loaded yet, and repeat their calls.

Triton 2.51 treats calls like this after `kill -9` of a component's process:

- The call in the process fails within a second, with "Stub process 'vad_0_0' is not healthy". Calls
  behind it in the queue fail one batch a second, whatever their timeouts, even after the model is
  loaded again. So a call is given up as soon as its model is back.
- The model counts as ready until it is unloaded. From then until it is loaded again, it counts as
  not ready, and calls fail at once.
- The streams of a component with sequences are lost: their next call without START fails.
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from conch.bls.call import (
    Call,
    ComponentAwayError,
    ComponentHungError,
    Components,
    Outputs,
    Send,
    StreamLostError,
)
from conch.bls.metrics import CALLS_REPEATED, Metrics, outcome
from conch.wire.errors import ComponentError, MissingModelError

logger = logging.getLogger(__name__)

MAX_REPEATS = 2
"""Repeats of a call whose component was away: the call itself may kill the process."""
MAX_REPEATS_HUNG = 1
"""Repeats of a call that hung: each try keeps the component busy."""
PATIENCE_S = 15.0
"""Longest time to wait for a component that is away, in seconds."""
SETTLE_S = 0.25
"""Seconds until a call tries a component that still counts as ready: it may have been replaced
before its failure was known."""
SETTLE_AGAIN_S = 4.0
"""Seconds until the next try after a second failure: the component has not been replaced yet."""
REMEMBER_S = 0.5
"""Seconds for which all requests share an answer on whether the server has a component."""
LEAST_POLL_S, MOST_POLL_S = 0.02, 0.2
"""Shortest and longest seconds between two checks of a component that is away; each wait is 1.5
times the one before."""
PAUSE_S = 10.0
"""Seconds after a failure for which a component is not loaded again: requests get its error."""


@dataclass(slots=True)
class _Absence:
    """A component that was found away, until it is known to be replaced."""

    tries_at: float
    """When one of the waiting calls tries it, on the event loop's clock."""
    is_open: bool = False
    """Whether calls are let through, because one was answered."""
    tried_at: float = math.inf
    """When the latest trying call was let through."""
    waiting: deque[asyncio.Future[bool]] = field(default_factory=deque)
    watch: asyncio.Task[None] | None = None


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
        """Loads that run, or failed in the last PAUSE_S, by model; each returns its error."""

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


class Failover:
    """Policy of all requests: a call waits for a component that is away, and is repeated then.

    After the first failed call the others wait, so that they take no thread of the server. While
    the component still counts as ready, one of them tries it. A call that continues a stream fails
    at once: the component has lost the stream, and the caller must start it again.
    """

    def __init__(
        self,
        components: Components,
        metrics: Metrics,
        served: Iterable[str] = (),
        on_demand: OnDemand | None = None,
    ) -> None:
        """`served` are the components that the server surely has; `on_demand` loads others.

        Calls of `components` belong to no request.
        """
        self._components, self._metrics = components, metrics
        self._on_demand = on_demand
        self._known = set(served)
        """The components that the server has, or had and may get back."""
        self._absences: dict[str, _Absence] = {}
        self._back_at: dict[str, float] = {}
        """When calls of a component that was away were last let through again."""
        self._probes: dict[str, tuple[float, asyncio.Task[bool]]] = {}
        """Probes that requests share, and when they started."""

    @property
    def away(self) -> list[str]:
        """The components whose calls wait: they have died, hang or are being replaced."""
        return [model for model, absence in self._absences.items() if not absence.is_open]

    @property
    def on_demand(self) -> list[str]:
        """The components that are loaded on demand, whether they are loaded by now or not."""
        return sorted(self._on_demand.models if self._on_demand else ())

    async def need(self, models: Iterable[str]) -> None:
        """Load the components that are loaded on demand, all at once, or raise a ComponentError."""
        if not self._on_demand:
            return
        lacking = self._on_demand.models.intersection(models) - self._known
        if not lacking:  # as for nearly every call
            return
        await asyncio.gather(*map(self._on_demand.need, lacking))
        for model in lacking:
            self._known.add(model)
            self._probes.pop(model, None)

    async def is_loaded(self, model: str, *, loads: bool = True) -> bool:
        """Return whether the server has a component; `loads` one that is loaded on demand.

        Wait for one that is being replaced. Raise a ComponentError if it cannot be loaded.
        """
        if loads:
            await self.need((model,))
        began, poll_s = _now(), LEAST_POLL_S
        while not await self._probed(model):
            if model not in self._known or _now() - began >= PATIENCE_S:
                return False
            await asyncio.sleep(poll_s)
            poll_s = _longer(poll_s)
        self._known.add(model)
        return True

    async def __call__(self, call: Call, proceed: Send) -> Outputs:
        model = call.model
        await self.need((model,))
        if model in self.away:
            if call.continues_stream:
                raise ComponentAwayError(f"{model} is being replaced: START the stream again")
            await self._back(model)
        repeat = 0
        while True:
            began = _now()
            try:
                with self._counting_repeat(model) if repeat else nullcontext():
                    return await self._try(call, proceed)
            except StreamLostError:
                raise
            except (ComponentAwayError, MissingModelError) as error:
                if isinstance(error, MissingModelError) and model not in self._known:
                    raise
                self._mark_away(model, began)
                if call.continues_stream:
                    raise ComponentAwayError(f"{error}: START the stream again") from error
                is_hung = isinstance(error, ComponentHungError)
                if repeat >= (MAX_REPEATS_HUNG if is_hung else MAX_REPEATS):
                    raise
            await self._back(model)
            repeat += 1

    @contextmanager
    def _counting_repeat(self, model: str) -> Iterator[None]:
        how = "ok"
        try:
            yield
        except BaseException as error:
            how = outcome(error)
            raise
        finally:
            self._metrics.add(CALLS_REPEATED, component=model, outcome=how)

    async def _try(self, call: Call, proceed: Send) -> Outputs:
        """Make a call; its answer lets the others through."""
        model, began = call.model, _now()
        outputs = await proceed(call)
        self._known.add(model)
        absence = self._absences.get(model)
        if absence is not None and not absence.is_open and began >= absence.tried_at:
            self._let_through(model, absence, is_back=True)
        return outputs

    async def _back(self, model: str) -> None:
        """Wait until a call may be made; raise ComponentAwayError if the component stays away."""
        absence = self._absences.get(model)
        if absence is None or absence.is_open:
            return
        back: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        absence.waiting.append(back)
        if not await back:
            raise ComponentAwayError(
                f"{model} has died or is being replaced, and was not back within {PATIENCE_S:g} s; "
                "try again"
            )

    async def _probed(self, model: str) -> bool:
        """Return whether the server has a component; requests share one probe."""
        now = _now()
        # Clients choose names, so nothing is kept for longer than it is shared.
        self._probes = {
            name: (probed_at, probe)
            for name, (probed_at, probe) in self._probes.items()
            if not probe.done() or now - probed_at < REMEMBER_S
        }
        if model not in self._probes:
            self._probes[model] = now, asyncio.create_task(self._components.is_loaded(model))
        return await asyncio.shield(self._probes[model][1])

    def _mark_away(self, model: str, called: float) -> None:
        """Let calls of a component wait, unless calls were let through since this one was made."""
        if called < self._back_at.get(model, -math.inf):
            return
        absence = self._absences.get(model)
        if absence is None:
            logger.warning("component %s is away; its calls wait for it", model)
            absence = self._absences[model] = _Absence(_now() + SETTLE_S)
            absence.watch = asyncio.create_task(self._watch(model, absence))
        elif absence.is_open:
            absence.is_open, absence.tries_at = False, _now() + SETTLE_AGAIN_S

    async def _watch(self, model: str, absence: _Absence) -> None:
        began, poll_s = _now(), LEAST_POLL_S
        is_ready, was_unloaded = True, False
        try:
            while not (is_ready and was_unloaded) and _now() - began < PATIENCE_S:
                await asyncio.sleep(poll_s)
                poll_s = _longer(poll_s)
                is_ready = await self._components.is_loaded(model)
                if not is_ready:
                    was_unloaded, absence.is_open = True, False
                elif not was_unloaded and not absence.is_open and _now() >= absence.tries_at:
                    self._let_one_through(absence)
        except BaseException:  # the models are being unloaded
            for back in absence.waiting:
                back.cancel()
            raise
        finally:
            del self._absences[model]
        took_s = _now() - began
        if not is_ready:
            logger.error("component %s has not come back within %.1f s", model, took_s)
            # It may be unloaded for good: from now on its calls fail at once.
            self._known.discard(model)
        elif was_unloaded:
            logger.warning("component %s is back after %.1f s", model, took_s)
            self._components.give_up(model)
        self._let_through(model, absence, is_back=is_ready)

    def _let_one_through(self, absence: _Absence) -> None:
        while absence.waiting:
            back = absence.waiting.popleft()
            if not back.done():  # not cancelled
                absence.tried_at = _now()
                absence.tries_at = absence.tried_at + SETTLE_AGAIN_S
                back.set_result(True)
                return

    def _let_through(self, model: str, absence: _Absence, *, is_back: bool) -> None:
        absence.is_open = True
        self._back_at[model] = _now()
        for back in absence.waiting:
            if not back.done():
                back.set_result(is_back)
        absence.waiting.clear()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _longer(poll_s: float) -> float:
    return min(MOST_POLL_S, 1.5 * poll_s)
