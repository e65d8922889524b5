"""The limits of a BLS model, and the traits of components that they depend on."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from conch.families import traits
from conch.families.family import Traits
from conch.wire.entry_points import ALL_ENTRY_POINTS
from conch.wire.errors import ConfigError
from conch.wire.named_models import component_of


@dataclass(frozen=True, slots=True, kw_only=True)
class BlsConfig:
    """Limits of all services of one process. A service adds its own in a subclass."""

    max_requests_in_flight: int = 256
    """Requests in flight at once; another one is refused."""
    max_bytes_in_flight: int = 2_147_483_648
    """Bytes of audio as sent, of all requests and live chunks at once. A request beyond is refused
    unless it is alone. Recordings and live chunks have a quarter reserved each."""
    max_audio_in_flight_s: float = 28_800.0
    """Seconds of audio of all recordings at once, summed over rows and channels; others wait. A
    request with more is refused. An hour takes up to 600 MB."""
    max_wait_s: float = 30.0
    """Longest wait of a recording without a deadline, in seconds, or eight times its own work if
    that is longer. A recording that would wait longer is refused at once."""
    max_encoder_calls: int = 4
    """Calls of recordings in flight at once to each component that answers them one by one, such as
    vad and the encoders; others wait. One recording has at most half. Use twice the instances; on a
    GPU, times the batch."""
    max_decoder_calls: int = 16
    """Calls of recordings at once to each component that answers calls together, such as a decoder:
    two full batches. One recording has at most a quarter. Where rows are in flight together, as in
    moonshine_decoder, all have at most three quarters of the rows, and one recording half."""
    max_calls_in_flight: int = 60
    """Component calls in flight at once, over all requests; others wait for a thread. A quarter is
    for live chunks, up to another quarter for passes over live utterances, an eighth for models of
    `post`, a sixteenth for the ends of streams. Keep it 4 below the backend's `thread-pool-size`:
    its threads also send answers."""
    max_passes_in_flight: int = 4
    """Rolling and second passes of all live streams at once; others wait, the most urgent first.
    Twice the instances of the attention models keep them busy: more on a GPU."""
    min_hang_s: float = 5.0
    """Seconds without an answer that never count as a hang. After them, a component that takes 15
    times as long as usual is ended and loaded again. Waits for a core do not count."""

    def __post_init__(self) -> None:
        """Check every limit; raise ConfigError at one that is too low, infinite or not a number."""
        for item in fields(self):
            if item.type in (str, bool):
                continue
            value, is_whole = getattr(self, item.name), item.type is int
            least = 4 if item.name == "max_calls_in_flight" else 1  # each lane has a thread
            if not math.isfinite(value) or (value < least if is_whole else value <= 0):
                takes = f"an integer of {least} or more" if is_whole else "a finite number above 0"
                raise ConfigError(f"parameter {item.name} takes {takes}; is: {value}")


OwnComponents = Mapping[str, Traits]
"""The components of this server by name. Any other model is not Conch's own."""


def traits_of(model: str, own: OwnComponents) -> Traits:
    """Return how a model works, which may not be Conch's own."""
    return own.get(model, Traits())


def own_components() -> OwnComponents:
    return {**dict.fromkeys(ALL_ENTRY_POINTS, Traits()), **traits()}


def with_copies(own: OwnComponents, served: Iterable[str]) -> OwnComponents:
    """Return the traits, with those of named models' copies among the `served`."""
    copies = {model: own[name] for model in served if (name := component_of(model)) in own}
    return {**own, **copies}
