"""Checks of what is drawn: the same few items each time, or many others."""

from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.chaos.drawn import drawn

Item = TypeVar("Item")


def check_few(items: st.SearchStrategy[Item], check: Callable[[Item], None], count: int) -> None:
    # Not by hypothesis itself: what it caches would change what the laboratory draws.
    for item in drawn(items, count, 1):
        check(item)


def check_many(items: st.SearchStrategy[Item], check: Callable[[Item], None], count: int) -> None:
    """Check other items each time; an error tells the smallest one that is wrong."""
    anything = settings(
        max_examples=count,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    anything(given(items)(check))()
