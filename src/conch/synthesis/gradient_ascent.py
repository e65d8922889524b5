"""Adam, and the mean of its latest points: the ascent of a voice to a person."""

from dataclasses import dataclass

import numpy as np

from conch.component import FloatArray
from conch.fitted_voices import Work

LEARNING_RATE = 0.1
"""Step in deviations of voices."""
BETAS = 0.8, 0.95
"""Decays of the first and second moments: quick ones, because some hundred steps are few."""
WEIGHT_DECAY = 0.2
"""Share of the way from the mix that each step takes back. Without this pull, a second network
that tells speakers apart finds the voice less alike in the end."""
EMA_DECAY = 0.9
"""Share of the former points in the mean, which is steadier than the latest one."""


@dataclass(slots=True)
class GradientAscent:
    """A search by Adam (Kingma & Ba 2015), whose answer is a decaying mean of its points."""

    point: FloatArray
    """Deviations from where the search began, `[size]`."""
    first: FloatArray
    second: FloatArray
    mean: FloatArray
    steps: int

    @classmethod
    def of(cls, work: Work, mean: FloatArray, steps: int) -> "GradientAscent":
        """Return the search that has come so far in so many steps."""
        point, first, second = (
            np.frombuffer(data, np.float32).copy() for data in (work.point, *work.moments)
        )
        return cls(point, first, second, mean, steps)

    @property
    def moments(self) -> tuple[bytes, bytes]:
        return self.first.tobytes(), self.second.tobytes()

    def step(self, gradient: FloatArray) -> None:
        """Take a step along a gradient `[size]`; one that is not finite counts as none."""
        self.steps += 1
        if not np.isfinite(gradient).all():
            return
        gradient = gradient - WEIGHT_DECAY * self.point / len(self.point)
        old, very_old = BETAS
        self.first = old * self.first + (1 - old) * gradient
        self.second = very_old * self.second + (1 - very_old) * gradient**2
        first = self.first / (1 - old**self.steps)
        second = self.second / (1 - very_old**self.steps)
        self.point = (self.point + LEARNING_RATE * first / (np.sqrt(second) + 1e-8)).astype(
            np.float32
        )
        self.mean = EMA_DECAY * self.mean + (1 - EMA_DECAY) * self.point
