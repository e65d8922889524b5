"""A report as Markdown: what a person reads first, ready to be pasted into the docs."""

from collections.abc import Mapping, Sequence
from typing import Any

from conch.bench.load import offer_title

COLUMNS = ("system", "load", "RTFx", "WER %", "p50 ms", "p90 ms", "p95 ms", "p99 ms", "peak MB")


NOTHING = "-"


def markdown(report: Mapping[str, Any]) -> str:
    """Return the tables of an offline report and a line on where they come from."""
    parts = [
        f"`{report['command']}`",
        _comparison(report),
        _by_source(report),
        _stages(report["runs"]),
        origin(report, report["runs"][0]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table: the first column to the left, the others, numbers, to the right."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def number(value: float | None, digits: int = 1, *, sign: bool = False) -> str:
    """Return a number with so many decimals, a dash where there is none."""
    if value is None:
        return NOTHING
    return f"{value:{'+' if sign else ''}.{digits}f}"


def percent(fraction: float | None, *, sign: bool = False) -> str:
    """Return a fraction in percent with two decimals, a dash where there is none."""
    return number(None if fraction is None else 100 * fraction, 2, sign=sign)


def _comparison(report: Mapping[str, Any]) -> str:
    names = list(report["baselines"])
    header = [*COLUMNS, *(title for name in names for title in (f"RTFx / {name}", f"WER - {name}"))]
    rows = [[*_figures("conch", run, _load(run)), *_versus(run, names)] for run in report["runs"]]
    for name, figures in report["baselines"].items():
        rows.append([*_figures(name, figures, offer_title(1, None)), *[NOTHING] * (2 * len(names))])
    errors = sum(run["errors"] for run in report["runs"])
    failed = f"\n\n**{errors} requests were answered with an error and count nowhere.**"
    return table(header, rows) + (failed if errors else "")


def _figures(system: str, figures: Mapping[str, Any], load: str) -> list[str]:
    latency = figures["latency_ms"]
    return [
        system,
        load,
        number(figures["rtfx"]),
        percent(figures["wer"]),
        *(number(latency[name], 0) for name in ("p50", "p90", "p95", "p99")),
        number(figures["peak_memory_mb"], 0),
    ]


def _versus(run: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    cells = []
    for name in names:
        other = run["versus"][name]
        cells += [number(other["rtfx_ratio"], 2), percent(other["wer_difference"], sign=True)]
    return cells


def _by_source(report: Mapping[str, Any]) -> str:
    first = report["runs"][0]["wer_by_source"]
    columns = {"conch": first}
    columns |= {name: other["wer_by_source"] for name, other in report["baselines"].items()}
    if len(first) < 2:
        return ""
    rows = [
        [source, *(percent(column.get(source)) for column in columns.values())] for source in first
    ]
    return table(["WER % by source", *columns], rows)


def _stages(runs: Sequence[Mapping[str, Any]]) -> str:
    names = dict.fromkeys(name for run in runs for name in run["stages"])
    header = ["mean per request", "calls", *(f"ms, {_load(run)}" for run in runs)]
    rows = []
    for name in names:
        stages = [run["stages"].get(name) for run in runs]
        calls = next(stage["calls"] for stage in stages if stage)
        times = [number(stage["ms"] if stage else None) for stage in stages]
        rows.append([name, number(calls, 2), *times])
    return table(header, rows) if rows else ""


def _load(run: Mapping[str, Any]) -> str:
    return offer_title(run["concurrency"], run["rate"])


def origin(report: Mapping[str, Any], first: Mapping[str, Any]) -> str:
    """Return where the figures of a report come from; `first` is its first run."""
    machine, versions = report["machine"], report["versions"]
    return (
        f"{first['utterances']} utterances, {first['audio_s']:.0f} s of audio; "
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']:g} GB; "
        f"Triton {versions['triton']}, Python {versions['python']}, "
        f"conch {versions.get('conch', 'from source')}; {report['started_at']}"
    )
