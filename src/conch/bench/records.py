"""Turn reports, which are frozen dataclasses, into JSON."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, get_args

Json: TypeAlias = dict[str, "Json"] | list["Json"] | str | int | float | None

_FLAT = "flat"
Item = TypeVar("Item")
Flat: TypeAlias = Annotated[Item, _FLAT]
"""Type of a record's field that the JSON replaces by the field's own fields."""


def to_json(value: Any) -> Json:
    """Return records, mappings, sequences, paths and plain values in a form for `json.dumps`."""
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return _object(value)
    raise TypeError(f"a report holds {type(value).__name__}, which has no JSON")


def _object(record: Any) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for item in fields(record):
        value = to_json(getattr(record, item.name))
        if isinstance(value, dict) and _FLAT in get_args(item.type):
            found |= value
        else:
            found[item.name] = value
    return found
