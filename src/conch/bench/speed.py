"""Speed: latency percentiles and the real-time factor."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Latencies in milliseconds; None each if no request was answered."""

    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    mean: float | None = None
    max: float | None = None

    @property
    def percentiles(self) -> tuple[float | None, ...]:
        return self.p50, self.p90, self.p95, self.p99


def latency_ms(latencies_s: Sequence[float]) -> Latency:
    """Return percentiles, mean and maximum.

    Percentiles are interpolated linearly between the two nearest latencies, as numpy does.
    """
    if not latencies_s:
        return Latency()
    milliseconds = np.asarray(latencies_s, dtype=np.float64) * 1000
    found = [*np.percentile(milliseconds, PERCENTILES), milliseconds.mean(), milliseconds.max()]
    names = [item.name for item in fields(Latency)]
    return Latency(**{k: round(float(v), 3) for k, v in zip(names, found, strict=True)})


def rtfx(audio_s: float, wall_s: float) -> float | None:
    """Return seconds of audio answered per second of wall clock; None without audio."""
    return round(audio_s / wall_s, 3) if audio_s and wall_s else None
