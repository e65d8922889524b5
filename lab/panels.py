"""Pictures of reports."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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
