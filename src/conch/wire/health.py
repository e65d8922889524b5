"""The question to `speech` for its components, and its answer.

Triton calls a model ready whose process has died or hangs. `speech` knows better.
"""

import json
from typing import NamedTuple

PARAMETER = "health"
"""Request parameter that asks. Such a request needs no audio; it has any tensor of the model."""


class Health(NamedTuple):
    """The answer."""

    away: tuple[str, ...]
    """The components whose calls wait."""
    on_demand: tuple[str, ...] = ()
    """The components that are loaded when a request needs them."""
    models: tuple[str, ...] = ()
    """The values of the option `model`."""
    voices: tuple[str, ...] = ()
    """What `conch.families.add_voices` takes."""


def to_json(health: Health) -> str:
    return json.dumps(health._asdict())


def from_json(text: str | bytes) -> Health:
    """Return what `to_json` wrote; raise a ValueError for another text."""
    found = json.loads(text)
    if not isinstance(found, dict) or not isinstance(found.get("away"), list):
        raise ValueError("no answer about components")
    # A server of an earlier version says less.
    return Health(*(tuple(map(str, found.get(name, ()))) for name in Health._fields))
