"""Pictures of a report of `conch bench orchestration`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LATENCY = "latency-load.png"
THROUGHPUT = "throughput-concurrency.png"
STAGES = "stages.png"


def write(report: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write the pictures that the report has figures for, and return them.

    A run of which every request failed is in none.

    Args:
        report: of `conch.bench.orchestration`.
        folder: exists.
    """
    systems = report["systems"]
    written = []
    runs = [run for item in systems.values() for run in item["runs"]]
    if any(run["rate"] and run["latencies"] for run in runs):
        written.append(_latency(systems, folder / LATENCY))
    written.append(_throughput(systems, folder / THROUGHPUT))
    written.append(_stages(systems, folder / STAGES))
    return written


def _latency(systems: Mapping[str, Any], path: Path) -> Path:
    """Draw p50 (solid) and p99 (dotted) of paced loads."""
    with _axes(path) as axes:
        for name, item in systems.items():
            paced = sorted(
                (run for run in item["runs"] if run["rate"] and run["latencies"]),
                key=lambda run: run["rate"],
            )
            if not paced:
                continue
            rates = [run["rate"] for run in paced]
            p50, p99 = ([run["latency_ms"][p] for run in paced] for p in ("p50", "p99"))
            (line,) = axes.plot(rates, p50, "o-", label=name)
            axes.plot(rates, p99, "o:", color=line.get_color())
        axes.set(
            xlabel="requests a second, paced",
            ylabel="latency in ms from when it was due: p50 solid, p99 dotted",
            yscale="log",
        )
    return path


def _throughput(systems: Mapping[str, Any], path: Path) -> Path:
    """Draw RTFx against the clients of a closed loop, a whisker from the least to the most."""
    with _axes(path) as axes:
        for name, item in systems.items():
            closed = [run for run in item["runs"] if run["concurrency"] and run["rtfx"]]
            closed.sort(key=lambda run: run["concurrency"])
            middle = [run["rtfx"] for run in closed]
            low = [run["rtfx"] - min(filter(None, run["rtfx_rounds"])) for run in closed]
            high = [max(filter(None, run["rtfx_rounds"])) - run["rtfx"] for run in closed]
            clients = [run["concurrency"] for run in closed]
            axes.errorbar(clients, middle, [low, high], fmt="o-", capsize=3, label=name)
        axes.set(
            xlabel="clients, closed loop", ylabel="RTFx: seconds of audio a second", ylim=(0, None)
        )
    return path


def _stages(systems: Mapping[str, Any], path: Path) -> Path:
    """Draw where the time of a request goes, by system, at the least concurrency of each."""
    bars: dict[str, Mapping[str, Any]] = {}
    for name, item in systems.items():
        closed = [
            run for run in item["runs"] if run["concurrency"] and run["stages"] and run["latencies"]
        ]
        if closed:
            run = min(closed, key=lambda run: run["concurrency"])
            bars[f"{name}\n{run['title']}"] = run
    names = list(bars)[::-1]
    with _axes(path) as axes:
        left = [0.0] * len(names)
        for title, widths in _parts(bars, names).items():
            axes.barh(names, widths, left=left, label=title)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set(xlabel="ms of a request, mean")
    return path


def _parts(bars: Mapping[str, Any], names: list[str]) -> dict[str, list[float]]:
    """Return the widths of each part of the bars: components, waiting, and the rest."""
    components = dict.fromkeys(name for run in bars.values() for name in run["stages"])
    nothing = {"queue_ms": 0.0, "compute_ms": 0.0}
    parts = {
        component: [bars[name]["stages"].get(component, nothing)["compute_ms"] for name in names]
        for component in components
    }
    parts["waiting in queues"] = [
        sum(stage["queue_ms"] for stage in bars[name]["stages"].values()) for name in names
    ]
    known = [sum(column) for column in zip(*parts.values(), strict=True)]
    parts["everything else"] = [
        # Segments that are computed side by side can take more than the request.
        max(0.0, bars[name]["latency_ms"]["mean"] - ms)
        for name, ms in zip(names, known, strict=True)
    ]
    return parts


@contextmanager
def _axes(path: Path) -> Iterator[Any]:
    with panels(path) as (axes,):
        yield axes


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
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
