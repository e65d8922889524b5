"""An offline report as Markdown."""

from collections.abc import Sequence

from conch.bench.header import Header
from conch.bench.offline import OfflineReport, OfflineRun
from conch.scoring.tables import number, percent, table

COLUMNS = ("system", "load", "RTFx", "WER %", "p50 ms", "p90 ms", "p95 ms", "p99 ms", "peak MB")
CER_COLUMNS = ("system", "load", "characters", "sub", "del", "ins", "CER %")


def markdown(report: OfflineReport) -> str:
    first = report.first.figures
    parts = [
        f"`{report.header.command}`",
        comparison(columns_of(report.runs), [run_cells(run) for run in report.runs], report.runs),
        character_errors(report.runs),
        scoring_line(report.runs),
        origin(report.header, f"{first.utterances} utterances", first.audio_s),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def comparison(
    header: Sequence[str], rows: Sequence[Sequence[str]], runs: Sequence[OfflineRun]
) -> str:
    """Return the first table, and the number of requests that it leaves out."""
    errors = sum(run.figures.errors for run in runs)
    failed = f"\n\n**{errors} requests failed and do not count.**"
    return table(header, rows) + (failed if errors else "")


def columns_of(runs: Sequence[OfflineRun]) -> list[str]:
    """Return `COLUMNS`, with the CER where only characters were counted."""
    found = [run.figures.accuracy for run in runs]
    is_cer = any(item.cer is not None for item in found) and all(item.wer is None for item in found)
    return ["CER %" if is_cer and column == "WER %" else column for column in COLUMNS]


def run_cells(run: OfflineRun) -> list[str]:
    """Return the cells under `columns_of`."""
    figures = run.figures
    return [
        run.system,
        run.title,
        number(figures.rtfx),
        percent(figures.accuracy.error_rate),
        *(number(value, 0) for value in figures.latency_ms.percentiles),
        number(run.peak_memory_mb, 0),
    ]


def character_errors(runs: Sequence[OfflineRun]) -> str:
    """Return the table of errors in characters; an empty text if none were counted."""
    rows = [
        [
            run.system,
            run.title,
            str(found.reference_characters),
            *map(str, (found.substitutions, found.deletions, found.insertions)),
            percent(run.figures.accuracy.cer),
        ]
        for run in runs
        if (found := run.figures.accuracy.character_errors) is not None
    ]
    return table(CER_COLUMNS, rows) if rows else ""


def scoring_line(runs: Sequence[OfflineRun]) -> str:
    """Return the measures and normalisers behind the error rates; empty if there are none."""
    used = {name for run in runs for name in run.figures.accuracy.scoring}
    return f"Error rates: {'; '.join(sorted(used))}." if used else ""


def origin(header: Header, what: str, audio_s: float) -> str:
    """Return a line on the origin of the figures; `what` is number and kind of the recordings."""
    return f"{what}, {audio_s:.0f} s of audio; {machine_line(header)}"


def machine_line(header: Header) -> str:
    """Return the machine, the versions and the time of a report."""
    machine, versions = header.machine, header.versions
    return (
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_gb:g} GB; "
        f"Triton {versions['triton']}, Python {versions['python']}, "
        f"conch {versions.get('conch', 'from source')}; {header.started_at}"
    )
