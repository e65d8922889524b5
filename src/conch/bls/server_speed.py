"""Measure how much audio a server recognises in a second, from its recordings."""

import math

FIRST_GUESS = 20.0
"""Seconds of audio a second before anything is measured: the speed of one slow core."""
PERIOD_S = 3.0
"""Least busy time between two figures, in seconds."""
CROWD = 4
"""Requests in flight that certainly keep a server busy."""
SURE, UNSURE = 0.5, 0.02
"""Weight of a new figure. A low one from a few requests says little: the server is partly idle."""


class ServerSpeed:
    """Measures the speed while there is work."""

    def __init__(self) -> None:
        self.audio_per_s = FIRST_GUESS
        """Seconds of audio recognised in a second."""
        self._work_s = self._busy_s = 0.0
        """Audio of this period, and its busy time until the latest pause."""
        self._since: float | None = None
        """When work began after the latest pause; None in a pause."""
        self._least = math.inf
        """Least number of requests in flight in this period."""

    def seconds_for(self, audio_s: float) -> float:
        """Return the time that audio takes."""
        return audio_s / self.audio_per_s

    def began(self, now: float) -> None:
        """Note that a request is in flight; `now` is the time on a monotonic clock."""
        if self._since is None:
            self._since = now

    def paused(self, now: float) -> None:
        """Note that no request is in flight any more."""
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
        found = self._work_s / busy_s
        is_sure = self._least >= CROWD or found > self.audio_per_s
        self.audio_per_s += (SURE if is_sure else UNSURE) * (found - self.audio_per_s)
        self._work_s = self._busy_s = 0.0
        self._least = math.inf
        self._since = now
