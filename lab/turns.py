"""Who goes when, and how often: what keeps a comparison of several systems fair."""

from collections.abc import Sequence

from conch.bench.load import Offer

TURNS = 4
"""Requests of each client of a closed loop at least, so that filling and emptying the loop, in
which fewer are under way, is a small part of it."""


def requests_of(offered: Offer, recordings: int) -> int:
    """Return how many requests a load takes: each recording once, and `TURNS` a client."""
    return max(recordings, TURNS * (offered.concurrency or 0))


def rotated(names: Sequence[str], number: int) -> list[str]:
    """Return the names from another one on each time, so that none is always the first or last."""
    start = number % len(names)
    return [*names[start:], *names[:start]]
