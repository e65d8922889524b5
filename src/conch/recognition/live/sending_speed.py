"""How fast a live stream is sent: faster than it is spoken, as a file may be, or not at all."""

import math

from conch.component import SAMPLE_RATE

PERIOD_S = 10.0
"""Least time between two marks, in seconds."""
AHEAD_S = 2.0
"""A stream that is more seconds ahead of its speaker is a file."""
STALL_S = 1.0
"""Seconds without audio that may be the network's. TCP sends a lost packet again after about 0.2 s,
and after 0.4 s more if it is lost again."""
MAX_AHEAD_S = 6.0
"""Seconds of audio that a live source may send at once: a segment of HLS."""


class SendingSpeed:
    """Compares the audio of a stream with the time since its start, and since a recent mark.

    A stream must be ahead in both: a microphone may begin with what it has kept, and a stream that
    was held up may catch up.
    """

    def __init__(self, now: float) -> None:
        self._start = self._before = self._latest = (now, 0)
        """Times with the samples until then: of the start, and of the two latest marks."""

    def mark(self, num_samples: int, now: float) -> None:
        """Note how much audio there is, once in a while."""
        if now - self._latest[0] > PERIOD_S:
            self._before, self._latest = self._latest, (now, num_samples)

    def is_ahead(self, num_samples: int, now: float) -> bool:
        """Return whether the stream is ahead of its speaker; arguments as of `mark`."""
        ahead_s = [
            (num_samples - samples) / SAMPLE_RATE - (now - at)
            for at, samples in (self._start, self._before)
        ]
        return min(ahead_s) > AHEAD_S


class Arrivals:
    """Measures how long a stream has had no audio, if it is played as it comes."""

    def __init__(self) -> None:
        self._latest, self._ahead_s = -math.inf, 0.0

    def add(self, seconds: float, now: float) -> None:
        """Note a chunk of this many seconds at a time on a monotonic clock."""
        if seconds:
            left_s = max(0.0, self._ahead_s - (now - self._latest))
            self._ahead_s, self._latest = min(left_s + seconds, MAX_AHEAD_S), now

    def pause_ms(self, now: float) -> float:
        """Return the milliseconds without audio that count as silence, 0 for a possible stall."""
        pause_s = now - self._latest - self._ahead_s
        return 1000 * pause_s if pause_s >= STALL_S else 0.0
