"""The question to `speech` for its components, and its answer.

Triton calls a model ready whose process has died or hangs. `speech` knows better.
"""

import json
from collections.abc import Sequence

PARAMETER = "health"
"""Request parameter that asks. Such a request needs no audio; it has any tensor of the model."""


def to_json(away: Sequence[str]) -> str:
    """Return the answer: the components whose calls wait."""
    return json.dumps({"away": list(away)})


def from_json(text: str | bytes) -> tuple[str, ...]:
    """Return what `to_json` wrote; raise a ValueError for another text."""
    found = json.loads(text)
    if not isinstance(found, dict) or not isinstance(found.get("away"), list):
        raise ValueError("no answer about components")
    return tuple(map(str, found["away"]))
