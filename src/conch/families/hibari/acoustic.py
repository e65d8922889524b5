"""The `acoustic` component: once for a sentence."""

from collections.abc import Sequence

import numpy as np

from conch.component import Outputs, Row
from conch.families.hibari.declaration import MAX_TOKENS
from conch.families.hibari.signal import starting_phases
from conch.families.hibari.weights import (
    ACOUSTIC,
    DURATIONS,
    LATENTS,
    PITCH,
    HibariConfig,
    open_graph,
)
from conch.wire.errors import InvalidRequestError

FRAMES_OF_UNIT = 2
"""Frames of a unit of duration."""
SLOWEST, FASTEST = 0.25, 4.0


class Acoustic:
    """Says when each sound is spoken, and how the voice does it."""

    def __init__(self, config: HibariConfig) -> None:
        """Load the network.

        Raises:
            ConfigError: it cannot be loaded, or a parameter is out of range.
        """
        self._session = open_graph(config, ACOUSTIC)

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs]:
        """Return `latents` and `durations` of rows with `tokens` and `speed`.

        Latents [frames, 132] are what the network's second half takes, the pitch in Hz, and the
        phase at which the frame begins, in turns.

        Raises:
            InvalidRequestError: there are no tokens, or too many, or the speed is out of range.
        """
        return [self._spoken(row) for row in rows]

    def _spoken(self, row: Row) -> Outputs:
        tokens, speed = row.inputs["tokens"].ravel(), row.inputs["speed"].ravel()
        if not 0 < len(tokens) <= MAX_TOKENS:
            raise InvalidRequestError(
                f"input 'tokens' takes 1 to {MAX_TOKENS} sounds; sent: {len(tokens)}"
            )
        if not SLOWEST <= speed[0] <= FASTEST:
            raise InvalidRequestError(
                f"input 'speed' takes {SLOWEST:g} to {FASTEST:g}; sent: {speed[0]:g}"
            )
        latents, pitch, units = self._session.run(
            [LATENTS, PITCH, DURATIONS],
            {"ids": tokens[np.newaxis].astype(np.int64), "speed": speed.astype(np.float32)},
        )
        columns = (latents[0], pitch, starting_phases(pitch[0])[np.newaxis])
        return {
            "latents": np.ascontiguousarray(np.concatenate(columns).T),
            "durations": np.rint(units * FRAMES_OF_UNIT).astype(np.int32),
        }
