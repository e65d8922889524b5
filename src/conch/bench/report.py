"""A report as Markdown: what a person reads first, ready to be pasted into the docs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conch.bench.alignment import MIN_RUN
from conch.bench.load import offer_title

COLUMNS = ("system", "load", "RTFx", "WER %", "p50 ms", "p90 ms", "p95 ms", "p99 ms", "peak MB")

ERROR_COLUMNS = ("words", "sub", "del", "ins", "WER %", "sub %", "del %", "ins %")

MOST_RUNS = 40
"""Deleted runs of a system that are listed; the JSON report has all."""

NOTHING = "-"


def markdown(report: Mapping[str, Any]) -> str:
    """Return the tables of an offline report and a line on where they come from."""
    parts = [
        f"`{report['command']}`",
        _comparison(report),
        _word_errors(report),
        _deleted_runs(report),
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


def _word_errors(report: Mapping[str, Any]) -> str:
    names = list(report["baselines"])
    header = ["word errors", "load", *ERROR_COLUMNS, f"deleted runs of {MIN_RUN}+"]
    header += [f"of which {name} has none" for name in names]
    rows = [["conch", _load(run), *error_cells(run), *_alone(run, names)] for run in report["runs"]]
    for name, figures in report["baselines"].items():
        rows.append([name, offer_title(1, None), *error_cells(figures), *[NOTHING] * len(names)])
    is_judged = any(run["wer"] is not None for run in report["runs"])
    return table(header, rows) if is_judged else ""


def error_cells(figures: Mapping[str, Any]) -> list[str]:
    """Return the cells under `ERROR_COLUMNS` and the number of deleted runs."""
    words = figures["reference_words"]
    counts = [figures[name] for name in ("substitutions", "deletions", "insertions")]
    return [
        *map(str, (words, *counts)),
        percent(figures["wer"]),
        *(percent(count / words if words else None) for count in counts),
        str(len(figures["deleted_runs"])),
    ]


def _alone(run: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return [str(len(run["versus"][name]["deleted_runs_alone"])) for name in names]


def _deleted_runs(report: Mapping[str, Any]) -> str:
    """Return where words in a row are missing, by the first run and by each baseline."""
    systems = {"conch": report["runs"][0], **report["baselines"]}
    rows = [
        [
            Path(found["path"]).name,
            system,
            number(found["start"]),
            number(found["end"]),
            str(found["end_word"] - found["first_word"]),
            found["words"],
        ]
        for system, figures in systems.items()
        for found in figures["deleted_runs"][:MOST_RUNS]
    ]
    left_out = "".join(
        f"\n\n{count - MOST_RUNS} more of {system} are in the JSON report."
        for system, figures in systems.items()
        if (count := len(figures["deleted_runs"])) > MOST_RUNS
    )
    header = ["deleted in", "by", "from s", "to s", "words", "which"]
    return table(header, rows) + left_out if rows else ""


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
        f"{first['utterances']} {_what(report)}, {first['audio_s']:.0f} s of audio; "
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']:g} GB; "
        f"Triton {versions['triton']}, Python {versions['python']}, "
        f"conch {versions.get('conch', 'from source')}; {report['started_at']}"
    )


def _what(report: Mapping[str, Any]) -> str:
    joining = report.get("joining")
    if report.get("benchmark") == "recordings":
        return "recordings"
    if not joining:
        return "utterances"
    low, high = joining["pause_s"]
    call = ", telephone calls" if joining["is_telephone"] else ""
    return (
        f"recordings joined to {joining['seconds']:g} s, pauses of {low:g} to {high:g} s with "
        f"{joining['between']}{call} (seed {joining['seed']})"
    )
