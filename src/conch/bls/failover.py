"""Repeat the calls of a component that died or hung, once it is back."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from conch.bls.availability import PATIENCE_S, Availability
from conch.bls.call import Call, Outputs, Send
from conch.bls.errors import ComponentAwayError, ComponentHungError, StreamLostError
from conch.bls.metrics import CALLS_REPEATED, Metrics, outcome
from conch.wire.errors import MissingModelError

MAX_REPEATS = 2
"""Repeats of a call whose component was away: the call itself may kill the process."""
MAX_REPEATS_HUNG = 1
"""Repeats of a call that hung: each try keeps the component busy."""


class Failover:
    """Policy of all requests: a call waits for a component that is away.

    A call that continues a stream fails at once: the component has lost the stream, and the caller
    must start it again.
    """

    def __init__(self, availability: Availability, metrics: Metrics) -> None:
        """Repeat nothing yet.

        Args:
            availability: The components that are away.
            metrics: Where repeats are counted.
        """
        self._availability, self._metrics = availability, metrics

    async def __call__(self, call: Call, proceed: Send) -> Outputs:
        """Make a call, and repeat it after its component was away.

        Raises:
            ComponentAwayError: the component is away.
        """
        if self._availability.is_away(call.model):
            if call.continues_stream:
                raise ComponentAwayError(f"{call.model} is being replaced: START the stream again")
            await self._back(call.model)
        repeat = 0
        while True:
            began = asyncio.get_running_loop().time()
            call.deadline.remaining_s(f"before {call.model} was called")
            try:
                with self._counting_repeat(call.model, repeat):
                    return await self._availability.call(call.model, proceed(call))
            except StreamLostError:
                raise
            except (ComponentAwayError, MissingModelError) as error:
                is_unknown = not self._availability.knows(call.model)
                if isinstance(error, MissingModelError) and is_unknown:
                    raise
                self._availability.begin(call.model, began)
                if call.continues_stream:
                    raise ComponentAwayError(f"{error}: START the stream again") from error
                is_hung = isinstance(error, ComponentHungError)
                if repeat >= (MAX_REPEATS_HUNG if is_hung else MAX_REPEATS):
                    raise
            await self._back(call.model)
            repeat += 1

    async def _back(self, model: str) -> None:
        """Wait for a component that is away.

        Raises:
            ComponentAwayError: it has not come back.
        """
        if not await self._availability.over(model):
            raise ComponentAwayError(
                f"{model} has died or is being replaced, and was not back within {PATIENCE_S:g} s; "
                "try again"
            )

    @contextmanager
    def _counting_repeat(self, model: str, repeat: int) -> Iterator[None]:
        if not repeat:
            yield
            return
        how = "ok"
        try:
            yield
        except BaseException as error:
            how = outcome(error)
            raise
        finally:
            self._metrics.add(CALLS_REPEATED, component=model, outcome=how)
