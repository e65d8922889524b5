"""Searches that run by themselves, as the reference of those that run side by side."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from conch.component.in_flight import Search

Step = TypeVar("Step")
Said = TypeVar("Said")
Result = TypeVar("Result")


def alone(
    search: Search[Step, Said, Result], advance: Callable[[Sequence[Step]], Sequence[Said]]
) -> Result:
    """Return the result of a search that runs by itself."""
    try:
        step = next(search)
        while True:
            step = search.send(*advance([step]))
    except StopIteration as end:
        make: Callable[[], Result] = end.value
        return make()
