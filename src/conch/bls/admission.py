"""Admission control: recordings start, wait for room, or are refused if the wait is too long.

Requests go in the order in which they would finish if all shared the server equally: the fair
sojourn protocol (E. Friedman, S. Henderson, "Fairness and efficiency in web server protocols",
SIGMETRICS 2003). Each finishes no later than with equal shares, and most much earlier: 300 equal
requests finish one by one, where with shares all would finish together.
"""

import asyncio
import heapq
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count

from conch.bls.concurrency import PrioritySemaphore
from conch.bls.config import BlsConfig
from conch.bls.metrics import REFUSED, ROOM_SECONDS, Metrics
from conch.wire.errors import AudioError, OverloadedError

OWN_TIMES = 8
"""A request may wait at least this many times its own work: a client that sends hours of audio does
not give up after seconds."""
QUIET_S = 5.0
"""Seconds after which a request that was overtaken counts as first again."""
SAVED = 0.25
"""Share of the bytes reserved for recordings; live chunks have the same share."""
SHORT, FOR_SHORT = 0.01, 0.1
"""Largest share of the room that a short request takes, and extra room for short requests only.
With it they do not wait for one of the longest recordings."""

FIRST_GUESS = 20.0
"""Seconds of audio a second before anything is measured: the speed of one slow core."""
PERIOD_S = 3.0
"""Least busy time between two figures, in seconds."""
CROWD = 4
"""Requests in flight that certainly keep a server busy."""
SURE, UNSURE = 0.5, 0.02
"""Weight of a new figure. A low one from a few requests says little: the server is partly idle."""


@dataclass(slots=True, eq=False)
class Share:
    """The work of one request, in seconds of audio."""

    key: tuple[float, int]
    """The request with the least key goes first."""
    size_s: float
    served_s: float = 0.0
    overtaken_at: float = -math.inf
    """When the latest request that goes before it arrived, on the caller's clock."""

    @property
    def left_s(self) -> float:
        return max(0.0, self.size_s - self.served_s)


class FairOrder:
    """The requests in flight, in the order in which equal shares of the server would finish them.

    Virtual time is the work that each request would have received by now.
    """

    def __init__(self) -> None:
        self._now_s = 0.0
        """Virtual time."""
        self._ends: list[tuple[float, int]] = []
        """Keys of the requests that have not ended in virtual time, as a heap."""
        self._gone: set[tuple[float, int]] = set()
        self._shares: dict[tuple[float, int], Share] = {}
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._shares)

    def enter(self, size_s: float, now: float = 0.0) -> Share:
        """Give a request its place, by its work in seconds of audio."""
        key = (self._now_s + size_s, next(self._numbers))
        heapq.heappush(self._ends, key)
        for other in self._shares.values():
            if other.key > key:
                other.overtaken_at = now
        share = self._shares[key] = Share(key, size_s)
        return share

    def serve(self, share: Share, until_s: float) -> float:
        """Count a request's audio as done up to a time; return the newly done seconds."""
        until_s = min(until_s, share.size_s)
        done_s = until_s - share.served_s
        if done_s <= 0:
            return 0.0
        share.served_s = until_s
        self._advance(done_s)
        return done_s

    def leave(self, share: Share) -> None:
        """Remove a request that has ended. Its remaining work will not be done."""
        del self._shares[share.key]
        # Others may have been served out of order: it may have ended in virtual time already.
        if share.left_s and share.key in self._ends:
            self._gone.add(share.key)
        if len(self._gone) > len(self._shares):
            self._ends = [key for key in self._ends if key not in self._gone]
            heapq.heapify(self._ends)
            self._gone.clear()
        if not self._shares:
            self._ends.clear()
            self._gone.clear()

    @property
    def left_s(self) -> float:
        return sum(share.left_s for share in self._shares.values())

    def ahead_s(self, share: Share) -> float:
        """Return the work of others that goes before a request, in seconds of audio."""
        return sum(other.left_s for other in self._shares.values() if other.key < share.key)

    def is_first(self, share: Share) -> bool:
        return not any(key < share.key for key in self._shares)

    def _advance(self, work_s: float) -> None:
        """Advance virtual time by work that all requests in it share."""
        while self._ends:
            if self._ends[0] in self._gone:
                self._gone.discard(heapq.heappop(self._ends))
                continue
            number = len(self._ends) - len(self._gone)
            to_next_s = (self._ends[0][0] - self._now_s) * number
            if to_next_s > work_s:
                self._now_s += work_s / number
                return
            work_s -= to_next_s
            self._now_s = heapq.heappop(self._ends)[0]


class Admission:
    """Admits recordings by the audio in flight, in the order of `FairOrder`."""

    def __init__(self, config: BlsConfig, metrics: Metrics) -> None:
        self._config, self._metrics = config, metrics
        self._order = FairOrder()
        self._speed = ServerSpeed()
        self._requests = 0
        self._bytes = self._live_bytes = 0
        self._room = PrioritySemaphore(config.max_audio_in_flight_s)
        """Seconds of audio that may be in flight."""

    @property
    def audio_s(self) -> float:
        return self._room.taken

    @contextmanager
    def arrived(self, num_bytes: int) -> Iterator[None]:
        """Count a request from its arrival to its answer, and the bytes of its audio as sent.

        Raise an OverloadedError if the server has too many requests, or too many bytes of them.
        """
        most = self._config.max_requests_in_flight
        if self._requests >= most:
            raise self._refused(
                "requests",
                f"{self._requests} requests are in flight, as many as this server takes "
                "(parameter max_requests_in_flight of the model)",
                self._time_of_one_s,
            )
        if self._requests:
            self._check_bytes(self._bytes, num_bytes, self._time_of_one_s)
        self._requests += 1
        self._bytes += num_bytes
        try:
            yield
        finally:
            self._requests -= 1
            self._bytes -= num_bytes

    @contextmanager
    def holding(self, num_bytes: int) -> Iterator[None]:
        """Count a live chunk's bytes in the block; raise an OverloadedError if it has no room."""
        self._check_bytes(self._live_bytes, num_bytes, 1.0)
        self._live_bytes += num_bytes
        try:
            yield
        finally:
            self._live_bytes -= num_bytes

    def _check_bytes(self, in_flight: int, more: int, again_s: float) -> None:
        most, total = self._config.max_bytes_in_flight, self._bytes + self._live_bytes
        saved = SAVED * most
        if in_flight + more > max(saved, min(most - saved, most - total + in_flight)):
            raise self._refused(
                "bytes",
                f"the requests in flight have {total} bytes of audio and this one {more}; this "
                f"server takes {most}, at most {most - saved:.0f} of them in recordings or in live "
                "chunks (parameter max_bytes_in_flight of the model)",
                again_s,
            )

    @asynccontextmanager
    async def begun(self, audio_s: float, deadline_s: float | None) -> AsyncIterator[Share]:
        """Wait until there is room for a request, and give it its position in the order.

        `audio_s` sums all rows and channels. `deadline_s` is None without a deadline. Raise an
        AudioError for more audio than the server takes at once, and an OverloadedError for a wait
        that is too long.
        """
        most = self._config.max_audio_in_flight_s
        if audio_s > most:
            raise AudioError(
                f"the request has {audio_s:.1f} s of audio in its rows and channels; this server "
                f"takes at most {most:g} s (parameter max_audio_in_flight_s of the model)"
            )
        self._speed.began(_now())
        share = self._order.enter(audio_s, _now())
        try:
            own_s = self._speed.seconds_for(audio_s)
            longest_s = max(self._config.max_wait_s, OWN_TIMES * own_s)
            patience_s = longest_s if deadline_s is None else deadline_s
            self._check_wait(share, patience_s)
            await self._find_room(share, patience_s)
            try:
                yield share
                self.served(share, audio_s)
            finally:
                self._room.release(audio_s)
        finally:
            self._order.leave(share)
            if not len(self._order):
                self._room.taken = 0.0  # drop rounding errors
                self._speed.paused(_now())

    def served(self, share: Share, until_s: float) -> None:
        """Note up to which second of its audio a request is recognised."""
        if done_s := self._order.serve(share, until_s):
            self._speed.served(done_s, len(self._order), _now())

    def is_first(self, share: Share) -> bool:
        """Return whether a request is first, and was not overtaken in the last QUIET_S seconds."""
        is_late = _now() - share.overtaken_at > QUIET_S
        return is_late and self._order.is_first(share)

    @property
    def _time_of_one_s(self) -> float:
        """Mean time until one of the requests in flight is done, in seconds."""
        return self._speed.seconds_for(self._order.left_s) / max(1, len(self._order))

    def _check_wait(self, share: Share, patience_s: float) -> None:
        wait_s = self._speed.seconds_for(self._order.ahead_s(share))
        if wait_s > patience_s:
            raise self._refused(
                "wait",
                f"the request would wait for {wait_s:.0f} s behind others, longer than the "
                f"{patience_s:.0f} s that it may (deadline_ms of the request, or parameter "
                "max_wait_s of the model)",
                # Many are refused at the same time: all of them find room when half are done.
                max(wait_s - patience_s, wait_s / 2),
            )

    async def _find_room(self, share: Share, patience_s: float) -> None:
        began, size_s, most = _now(), share.size_s, self._config.max_audio_in_flight_s
        more = FOR_SHORT * most if size_s <= SHORT * most else 0.0
        try:
            await self._room.acquire(share.key, size_s, kept=-more, patience_s=patience_s)
        except TimeoutError:
            raise self._refused(
                "room",
                f"there was no room for {size_s:.1f} s of audio within {patience_s:.0f} s "
                "(parameter max_audio_in_flight_s of the model)",
                self._time_of_one_s,
            ) from None
        finally:
            self._metrics.add(ROOM_SECONDS, _now() - began)

    def _refused(self, reason: str, message: str, again_s: float) -> OverloadedError:
        self._metrics.add(REFUSED, reason=reason)
        return OverloadedError.until(message, math.ceil(again_s))


def _now() -> float:
    return asyncio.get_running_loop().time()


class ServerSpeed:
    """Measures the speed while there is work."""

    def __init__(self) -> None:
        self.audio_per_s = FIRST_GUESS
        self._work_s = self._busy_s = 0.0
        """Audio of this period, and its busy time until the latest pause."""
        self._since: float | None = None
        """When work began after the latest pause; None in a pause."""
        self._least = math.inf
        """Least number of requests in flight in this period."""

    def seconds_for(self, audio_s: float) -> float:
        return audio_s / self.audio_per_s

    def began(self, now: float) -> None:
        """Note that a request is in flight; `now` is the time on a monotonic clock."""
        if self._since is None:
            self._since = now

    def paused(self, now: float) -> None:
        if self._since is not None:
            self._busy_s += now - self._since
        self._since = None

    def served(self, audio_s: float, in_flight: int, now: float) -> None:
        """Note that audio was recognised; `in_flight` counts its own request too."""
        self._work_s += audio_s
        self._least = min(self._least, in_flight)
        busy_s = self._busy_s + (now - self._since if self._since is not None else 0.0)
        if busy_s < PERIOD_S:
            return
        measured = self._work_s / busy_s
        is_sure = self._least >= CROWD or measured > self.audio_per_s
        self.audio_per_s += (SURE if is_sure else UNSURE) * (measured - self.audio_per_s)
        self._work_s = self._busy_s = 0.0
        self._least = math.inf
        self._since = now
