"""Order and number of requests that keep a comparison of systems fair."""

from collections.abc import Sequence

from conch.bench.load import Offer

TURNS = 4
"""Least requests of each client of a closed loop.

Filling and emptying the loop, with fewer requests in flight, is then a small part of the load.
"""


def requests_of(offered: Offer, recordings: int) -> int:
    """Return the number of requests of a load: each recording once, and `TURNS` per client."""
    return max(recordings, TURNS * (offered.concurrency or 0))


def rotated(names: Sequence[str], number: int) -> list[str]:
    """Return the names, beginning with another one each round, so that none is always first."""
    start = number % len(names)
    return [*names[start:], *names[:start]]
