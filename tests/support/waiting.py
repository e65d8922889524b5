"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SHORTEST_S, LONGEST_S = 0.01, 0.1
"""Between two looks, of which the first come sooner: some list all processes of the machine."""


def wait_until(
    condition: Callable[[], T], timeout_s: float = 60.0, shown: Callable[[], object] = str
) -> T:
    """Return the condition's first value that is true; fail with what is `shown`."""
    deadline = time.monotonic() + timeout_s
    pause_s = SHORTEST_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s {shown()}"
        time.sleep(pause_s)
        pause_s = min(LONGEST_S, 1.5 * pause_s)
    return value
