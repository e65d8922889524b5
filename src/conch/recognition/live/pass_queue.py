"""The passes of all live streams: limited in number, the most urgent first."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from conch.bls.calls import Calls
from conch.bls.priority_semaphore import PrioritySemaphore
from conch.recognition.config import RecognitionConfig
from conch.recognition.live.load import Load
from conch.wire.errors import OverloadedError
from conch.wire.options import RecognitionOptions

Result = TypeVar("Result")


class Rank(IntEnum):
    """Which passes go first; among equals the one that is due first."""

    SECOND = 0
    """Second passes of utterances that have ended: their text is awaited."""
    ROLLING = 1
    """Passes while an utterance is open."""
    FILE = 2
    """Passes of a stream that is sent faster than it is spoken."""


class PassQueue:
    """Admits passes by their rank. Of several places, one is kept for second passes.

    A pass must not wait for another one while it has a place.
    """

    def __init__(self, most: int) -> None:
        self._semaphore = PrioritySemaphore(most)
        self._kept = 1 if most > 1 else 0

    async def run(
        self,
        make: Callable[[], Awaitable[Result]],
        *,
        due: float,
        rank: Rank,
        patience_s: float | None = None,
    ) -> Result:
        """Run a pass by `PrioritySemaphore.run`; raise an OverloadedError after `patience_s`."""
        has_begun = False

        async def begun() -> Result:
            nonlocal has_begun
            has_begun = True
            return await make()

        kept = 0 if rank == Rank.SECOND else self._kept
        try:
            return await self._semaphore.run(begun, (rank, due), kept=kept, patience_s=patience_s)
        except TimeoutError:
            if has_begun:
                raise
            raise OverloadedError(
                f"the passes of other streams took all of {patience_s:g} s"
            ) from None


@dataclass(frozen=True, slots=True)
class SharedPasses:
    """What the passes of all streams share."""

    queue: PassQueue
    load: Load
    clock: Callable[[], float]
    """Returns seconds that only grow."""


@dataclass(frozen=True, slots=True)
class PassedStream:
    """What all passes over one live stream have to know."""

    options: RecognitionOptions
    calls: Calls
    """Calls that may outlive the request of a chunk."""
    shared: SharedPasses
    config: RecognitionConfig
    is_ahead: Callable[[], bool]
    """Returns whether the stream is sent faster than it is spoken: no one waits."""
