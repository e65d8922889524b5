"""Reports of benchmarks as Markdown."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

from conch.bench.header import Header
from conch.scoring.error_rates import table

Item = TypeVar("Item")
Columns: TypeAlias = Sequence[tuple[str, Callable[[Item], object]]]
"""The title of each column, and its cell for an item."""


def table_of(items: Iterable[Item], columns: Sequence[tuple[str, Callable[[Item], object]]]) -> str:
    """Return a table with a row for each item; an empty text without items."""
    rows = [[str(cell(item)) for _, cell in columns] for item in items]
    return table([title for title, _ in columns], rows) if rows else ""


def page(header: Header, *parts: str) -> str:
    """Return the command of a report, and its parts that are not empty."""
    return "\n\n".join((f"`{header.command}`", *filter(None, parts))) + "\n"
