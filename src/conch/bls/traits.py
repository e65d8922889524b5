"""Traits of a component by which its calls are limited."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from conch.families import traits
from conch.wire.entry_points import ENTRY_POINTS, SYNTHESIS
from conch.wire.named_models import component_of

HANG_FACTOR = 15.0
"""How many times longer than expected a call may take before its component counts as hung."""


@dataclass(frozen=True, slots=True)
class Traits:
    """How a component of this server works."""

    is_one_by_one: bool = False
    """Whether a CPU computes the rows of a batch one after the other."""
    in_flight: int = 0
    """Most rows that are in flight together, and may leave early; 0 for whole batches."""
    hang_factor: float = HANG_FACTOR
    """How many times longer than expected a call may take: more if the work does not follow from
    the size of the input."""


OwnComponents = Mapping[str, Traits]
"""The components of this server by name. Any other model is not Conch's own."""


def traits_of(model: str, own: OwnComponents) -> Traits:
    """Return how a model works, which may not be Conch's own."""
    return own.get(model, Traits())


def own_components() -> OwnComponents:
    """Return the traits of Conch's components."""
    declared = {
        name: Traits(
            component.is_one_by_one, component.in_flight, component.hang_factor or HANG_FACTOR
        )
        for name, component in traits().items()
    }
    return {**dict.fromkeys((*ENTRY_POINTS, *SYNTHESIS), Traits()), **declared}


def with_copies(own: OwnComponents, served: Iterable[str]) -> OwnComponents:
    """Return the traits with those of the copies that named models are among the `served`."""
    copies = {model: own[name] for model in served if (name := component_of(model)) in own}
    return {**own, **copies}
