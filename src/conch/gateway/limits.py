"""How much a key may use: requests and seconds of audio a minute, and live sessions at once."""

from dataclasses import dataclass

MINUTE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a key; 0 is none."""

    requests_per_minute: int = 0
    """Files, live sessions that are opened, and client secrets."""
    audio_s_per_minute: float = 0.0
    """Seconds of audio, of files and of live sessions."""
    streams: int = 0
    """Live sessions at once."""


class Bucket:
    """A token bucket: as much as a minute's share at once, and refilled steadily.

    It may be overdrawn, since the length of a file is known only after its recognition.
    """

    def __init__(self, per_minute: float, now: float) -> None:
        """Begin full.

        Args:
            per_minute: The share; 0 is no limit.
            now: Seconds of a clock that never goes back.
        """
        self._per_minute = self._level = per_minute
        self._at = now

    def wait_s(self, amount: float, now: float) -> float:
        """Return the seconds until `amount` is there; 0 if it is."""
        if not self._per_minute:
            return 0.0
        self._refill(now)
        missing = min(amount, self._per_minute) - self._level
        return max(0.0, missing * MINUTE_S / self._per_minute)

    def take(self, amount: float, now: float) -> None:
        """Take `amount`, whether it is there or not."""
        self._refill(now)
        self._level -= amount

    def _refill(self, now: float) -> None:
        gained = (now - self._at) * self._per_minute / MINUTE_S
        self._level = min(self._per_minute, self._level + gained)
        self._at = now


class Allowance:
    """What a key has left of its limits."""

    def __init__(self, limits: Limits, now: float) -> None:
        """Begin with nothing used."""
        self.limits = limits
        self.requests = Bucket(limits.requests_per_minute, now)
        self.audio_s = Bucket(limits.audio_s_per_minute, now)
        self.streams = 0
        """Live sessions that are open."""
