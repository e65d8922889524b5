"""The order of requests: the shortest fair-share finish goes first, and ties go to the oldest.

Requests go in the order in which they would finish if all shared the server equally: the fair
sojourn protocol (E. Friedman, S. Henderson, "Fairness and efficiency in web server protocols",
SIGMETRICS 2003). Each finishes no later than with equal shares, and most much earlier: 300 equal
requests finish one by one, where with shares all would finish together.
"""

import heapq
import math
from dataclasses import dataclass
from itertools import count


@dataclass(slots=True, eq=False)
class Share:
    """The work of one request, in seconds of audio."""

    key: tuple[float, int]
    """The request with the least key goes first."""
    size_s: float
    """All of its work."""
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
        """Keys of requests that were given up."""
        self._shares: dict[tuple[float, int], Share] = {}
        """The requests that have not ended."""
        self._numbers = count()

    def __len__(self) -> int:
        """Return the number of requests that have not ended."""
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
        """Remaining work of all requests, in seconds of audio."""
        return sum(share.left_s for share in self._shares.values())

    def ahead_s(self, share: Share) -> float:
        """Return the work of others that goes before a request, in seconds of audio."""
        return sum(other.left_s for other in self._shares.values() if other.key < share.key)

    def is_first(self, share: Share) -> bool:
        """Return whether no request goes before this one."""
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
