"""Pictures of a report of `python -m lab orchestration`."""

from collections.abc import Mapping
from pathlib import Path

from lab.orchestration.figures import LoadFigures, SystemFigures
from lab.reports import panels

LATENCY = "latency-load.png"
THROUGHPUT = "throughput-concurrency.png"
STAGES = "stages.png"

Systems = Mapping[str, SystemFigures]


def write(systems: Systems, folder: Path) -> list[Path]:
    """Write the pictures that a report has figures for, without runs that failed altogether."""
    written = []
    if any(run.offered.rate and run.latencies for item in systems.values() for run in item.runs):
        written.append(_latency(systems, folder / LATENCY))
    written.append(_throughput(systems, folder / THROUGHPUT))
    written.append(_stages(systems, folder / STAGES))
    return written


def _latency(systems: Systems, path: Path) -> Path:
    with panels(path) as (axes,):
        for name, item in systems.items():
            paced = sorted(
                (run for run in item.runs if run.offered.rate and run.latencies),
                key=lambda run: run.offered.rate or 0.0,
            )
            if not paced:
                continue
            rates = [run.offered.rate for run in paced]
            (line,) = axes.plot(rates, [run.latency_ms.p50 for run in paced], "o-", label=name)
            p99 = [run.latency_ms.p99 for run in paced]
            axes.plot(rates, p99, "o:", color=line.get_color())
        axes.set(
            xlabel="requests a second, paced",
            ylabel="latency in ms from when it was due: p50 solid, p99 dotted",
            yscale="log",
        )
    return path


def _throughput(systems: Systems, path: Path) -> Path:
    with panels(path) as (axes,):
        for name, item in systems.items():
            closed = [
                (run.offered.concurrency, run.rtfx, [value for value in run.rtfx_rounds if value])
                for run in item.runs
                if run.offered.concurrency and run.rtfx
            ]
            closed.sort()
            clients = [concurrency for concurrency, _, _ in closed]
            middle = [rtfx for _, rtfx, _ in closed]
            low = [rtfx - min(rounds) for _, rtfx, rounds in closed]
            high = [max(rounds) - rtfx for _, rtfx, rounds in closed]
            axes.errorbar(clients, middle, [low, high], fmt="o-", capsize=3, label=name)
        axes.set(
            xlabel="clients, closed loop", ylabel="RTFx: seconds of audio a second", ylim=(0, None)
        )
    return path


def _stages(systems: Systems, path: Path) -> Path:
    """Draw where the time of a request goes, by system, at the least concurrency of each."""
    bars: dict[str, LoadFigures] = {}
    for name, item in systems.items():
        closed = [
            run for run in item.runs if run.offered.concurrency and run.stages and run.latencies
        ]
        if closed:
            run = min(closed, key=lambda run: run.offered.concurrency or 0)
            bars[f"{name}\n{run.title}"] = run
    names = list(bars)[::-1]
    with panels(path) as (axes,):
        left = [0.0] * len(names)
        for title, widths in _parts(bars, names).items():
            axes.barh(names, widths, left=left, label=title)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set(xlabel="ms of a request, mean")
    return path


def _parts(bars: Mapping[str, LoadFigures], names: list[str]) -> dict[str, list[float]]:
    stages = [bars[name].stages for name in names]
    components = dict.fromkeys(name for run in bars.values() for name in run.stages)
    parts = {
        component: [
            by_component[component].compute_ms if component in by_component else 0.0
            for by_component in stages
        ]
        for component in components
    }
    parts["waiting in queues"] = [
        sum(stage.queue_ms for stage in by_component.values()) for by_component in stages
    ]
    known = [sum(column) for column in zip(*parts.values(), strict=True)]
    parts["everything else"] = [
        # Segments that are computed at the same time can take longer than the request.
        max(0.0, (bars[name].latency_ms.mean or 0.0) - ms)
        for name, ms in zip(names, known, strict=True)
    ]
    return parts
