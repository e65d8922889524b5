"""An offline report as Markdown."""

from collections.abc import Mapping, Sequence

from conch.bench.figures import RunFigures
from conch.bench.header import Header
from conch.bench.measures import Accuracy
from conch.bench.offline import OfflineReport, OfflineRun
from conch.bench.tables import number, percent, table

COLUMNS = ("system", "load", "RTFx", "WER %", "p50 ms", "p90 ms", "p95 ms", "p99 ms", "peak MB")
CER_COLUMNS = ("system", "load", "characters", "sub", "del", "ins", "CER %")

ERROR_COLUMNS = ("words", "sub", "del", "ins", "WER %", "sub %", "del %", "ins %")


def markdown(report: OfflineReport) -> str:
    """Return the tables of an offline report and a line on their origin."""
    first = report.first.figures
    parts = [
        f"`{report.header.command}`",
        comparison(columns_of(report.runs), [run_cells(run) for run in report.runs], report.runs),
        _word_errors(report.runs),
        by_source(_by_system(report.runs)),
        character_errors(report.runs),
        by_source(_by_system(report.runs, in_characters=True), "CER"),
        *_stages_by_system(report.runs),
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
    figures: RunFigures = run.figures
    accuracy = figures.accuracy
    return [
        run.system,
        run.title,
        number(figures.rtfx),
        percent(accuracy.error_rate),
        *(number(value, 0) for value in figures.latency_ms.percentiles),
        number(run.peak_memory_mb, 0),
    ]


def error_cells(accuracy: Accuracy) -> list[str]:
    """Return the cells under `ERROR_COLUMNS`."""
    words = accuracy.reference_words
    counts = (accuracy.substitutions, accuracy.deletions, accuracy.insertions)
    return [
        *map(str, (words, *counts)),
        percent(accuracy.wer),
        *(percent(count / words if words else None) for count in counts),
    ]


def _word_errors(runs: Sequence[OfflineRun]) -> str:
    if all(run.figures.accuracy.wer is None for run in runs):
        return ""
    rows = [[run.system, run.title, *error_cells(run.figures.accuracy)] for run in runs]
    return table(["word errors", "load", *ERROR_COLUMNS], rows)


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


def _by_system(
    runs: Sequence[OfflineRun], *, in_characters: bool = False
) -> Mapping[str, Mapping[str, float | None]]:
    """Return the error rate by source of each system's first run."""
    found: dict[str, Mapping[str, float | None]] = {}
    for run in runs:
        accuracy = run.figures.accuracy
        rates = accuracy.cer_by_source if in_characters else accuracy.wer_by_source
        found.setdefault(run.system, rates)
    return found


def by_source(columns: Mapping[str, Mapping[str, float | None]], metric: str = "WER") -> str:
    """Return the table of the error rate by source; an empty text for a single source.

    Args:
        columns: error rate by source of each system; the first system has all sources.
        metric: name of the rate.
    """
    first = next(iter(columns.values()))
    if len(first) < 2:
        return ""
    rows = [
        [source, *(percent(column.get(source)) for column in columns.values())] for source in first
    ]
    return table([f"{metric} % by source", *columns], rows)


def _stages_by_system(runs: Sequence[OfflineRun]) -> list[str]:
    systems = dict.fromkeys(run.system for run in runs)
    if len(systems) == 1:
        return [stages(runs)]
    return [
        stages([run for run in runs if run.system == system], f"mean per request, {system}")
        for system in systems
    ]


def stages(runs: Sequence[OfflineRun], title: str = "mean per request") -> str:
    """Return the table of the work of each component for a request."""
    names = dict.fromkeys(name for run in runs for name in run.figures.stages)
    header = [title, "calls", *(f"ms, {run.title}" for run in runs)]
    rows = []
    for name in names:
        found = [run.figures.stages.get(name) for run in runs]
        calls = next(stage.calls for stage in found if stage)
        times = [number(stage.ms if stage else None) for stage in found]
        rows.append([name, number(calls, 2), *times])
    return table(header, rows) if rows else ""


def origin(header: Header, what: str, audio_s: float) -> str:
    """Return a line on the origin of the figures.

    Args:
        header: header of the report.
        what: number and kind of the recordings sent.
        audio_s: seconds of audio sent.
    """
    machine, versions = header.machine, header.versions
    return (
        f"{what}, {audio_s:.0f} s of audio; "
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_gb:g} GB; "
        f"Triton {versions['triton']}, Python {versions['python']}, "
        f"conch {versions.get('conch', 'from source')}; {header.started_at}"
    )
