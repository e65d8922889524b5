"""The rule for a request that ends servers: after two losses no server gets it again.

The gateway, `conch transcribe`, bulk runs and live streams share it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from conch.wire.errors import ConchError, PoisonError, ServerLostError, UnreachableError

MAX_LOSSES = 2
REMEMBERED_S = 3600.0
"""Seconds for which a loss counts."""
MAX_NAMES = 10_000
"""Requests whose losses are known; the oldest loss is forgotten first."""


def blames(error: BaseException) -> bool:
    """Return whether an error speaks against the request: its server was lost while it had it.

    A server that cannot be reached, or that says that it stops, has not been lost by a request.
    """
    if isinstance(error, UnreachableError) or not isinstance(error, ServerLostError):
        return False
    return error.had_request


def refusal(error: ConchError | None = None, name: str = "") -> PoisonError:
    """Return the error of a request that has lost MAX_LOSSES servers, the last one by `error`."""
    what = f"what has the SHA-256 {name}" if name else "this request"
    last = f" (the last time: {error})" if error else ""
    return PoisonError(
        f"{MAX_LOSSES} servers were lost while they had {what}, so no other gets it{last}: look "
        "for what is wrong with it, and report it with the servers' logs"
    )


class _Loss(NamedTuple):
    number: int
    at: float


class Losses:
    """The servers that requests have lost, by the request's name: the digest of its file, say."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._losses: dict[str, _Loss] = {}
        """Losses by name, the oldest first."""

    def is_suspect(self, name: str = "") -> bool:
        """Return whether a request has lost a server; it is sent again alone."""
        oldest = self._now() - REMEMBERED_S
        while self._losses and next(iter(self._losses.values())).at < oldest:
            self._forget_first()
        return name in self._losses

    def check(self, name: str = "") -> None:
        """Raise a PoisonError if a request has lost MAX_LOSSES servers."""
        if self.is_suspect(name) and self._losses[name].number >= MAX_LOSSES:
            raise refusal(name=name)

    @contextmanager
    def attempt(self, name: str = "") -> Iterator[None]:
        """Send a request to a server within the block; an answer clears the name.

        Requests of one name that are lost together count once: one of them may be innocent of it.
        Raise a PoisonError if it has lost MAX_LOSSES servers, before or with this attempt.
        """
        self.check(name)
        began = self._now()
        try:
            yield
        except ServerLostError as error:
            if not blames(error):
                raise
            loss = self._losses.get(name)
            if loss is None or loss.at <= began:
                loss = _Loss(loss.number + 1 if loss else 1, self._now())
                self._losses.pop(name, None)  # so that it comes last
                self._losses[name] = loss
                if len(self._losses) > MAX_NAMES:
                    self._forget_first()
            if loss.number >= MAX_LOSSES:
                raise refusal(error, name) from error
            raise
        # A later loss was that of another attempt, or of the end of a streamed answer.
        if name in self._losses and self._losses[name].at <= began:
            del self._losses[name]

    def _forget_first(self) -> None:
        del self._losses[next(iter(self._losses))]
