"""The `moonshine_encoder` component."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conch.component import Outputs, Row
from conch.component.niceness import be_nice
from conch.component.parameters import DeviceConfig
from conch.families.moonshine.network import MoonshineEncoder
from conch.families.moonshine.weights import moonshine_folder
from conch.wire.errors import ConfigError

MAX_S = 30.0
"""Longest audio of one call, in seconds: of more, the decoder adds words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoonshineConfig(DeviceConfig):
    nice: int = 10
    """Least niceness of the process, 0 to 19: with more than 0, the CTC models and the VAD of live
    streams get a busy CPU first."""

    def __post_init__(self) -> None:
        if self.device != "cpu":
            raise ConfigError(f"Moonshine runs with device cpu; is: {self.device}")


class EncoderComponent:
    """Turns waveforms of at most 30 s into hidden states, one after the other."""

    def __init__(self, config: MoonshineConfig) -> None:
        be_nice(config.nice)
        self._encode = MoonshineEncoder(moonshine_folder(config.model), config.threads)

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs]:
        found = [self._encode(row.segment(MAX_S)) for row in rows]
        return [
            {"encoder_out": hidden, "encoder_out_lens": np.array([len(hidden)], np.int32)}
            for hidden in found
        ]
