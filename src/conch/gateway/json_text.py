"""Read JSON that clients send."""

import json
from typing import Any

MAX_DEPTH = 32
"""Objects and lists inside one another."""
MAX_MARKS = 10_000
"""Commas, and beginnings of objects and lists: two bytes of them may take a hundred in memory."""


def read_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: it is no JSON, has more than MAX_MARKS, or is nested deeper than MAX_DEPTH.
    """
    if sum(map(text.count, ",[{")) > MAX_MARKS:
        raise ValueError(f"it takes at most {MAX_MARKS} commas, lists and objects")
    try:
        value = json.loads(text)
        is_deep = _is_deep(value)
    except RecursionError:
        is_deep = True
    if is_deep:
        raise ValueError(f"it takes lists and objects nested at most {MAX_DEPTH} deep")
    return value


def _is_deep(value: Any) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]
    return bool(level)
