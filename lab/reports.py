"""Reports of benchmarks as Markdown and as pictures."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

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


@contextmanager
def panels(path: Path, count: int = 1) -> Iterator[list[Any]]:
    """Yield matplotlib's axes of panels side by side, and write the picture afterwards."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    size = (8, 5) if count == 1 else (4.5 * count, 4)
    figure, (row,) = pyplot.subplots(1, count, figsize=size, layout="constrained", squeeze=False)
    yield list(row)
    for axes in row:
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
