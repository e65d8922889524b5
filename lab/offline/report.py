"""A report of `python -m lab offline` as Markdown."""

from collections.abc import Sequence
from pathlib import Path

from conch.bench.header import origin
from conch.bench.load import Offer
from conch.bench.offline import columns_of, comparison, run_cells, scoring_line
from conch.scoring.error_rates import NOTHING, Accuracy, number, percent, table
from lab.alignment import MIN_RUN, DeletedWords
from lab.figures import BaselineFigures, JudgedRun
from lab.offline.benchmark import ComparedRun, OfflineComparison
from lab.recordings.joined import Joining

ERROR_COLUMNS = ("words", "sub", "del", "ins", "WER %", "sub %", "del %", "ins %")
MOST_RUNS = 40
"""Largest number of listed deleted runs of a system; the JSON report has all."""
ONE_CLIENT = Offer(concurrency=1).title
"""The load of a baseline."""


def markdown(report: OfflineComparison) -> str:
    runs = [item.judged.run for item in report.runs]
    figures = report.first.judged.run.figures
    parts = [
        f"`{report.header.command}`",
        _comparison(report),
        _word_errors(report),
        _deleted_runs(report),
        scoring_line(runs),
        origin(report.header, f"{figures.utterances} {_what(report.joining)}", figures.audio_s),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _comparison(report: OfflineComparison) -> str:
    names, runs = list(report.baselines), [item.judged.run for item in report.runs]
    columns = columns_of(runs)
    rate = "CER" if "CER %" in columns else "WER"
    versus = [title for name in names for title in (f"RTFx / {name}", f"{rate} - {name}")]
    rows = [[*run_cells(item.judged.run), *_versus(item, names)] for item in report.runs]
    for name, figures in report.baselines.items():
        rows.append([*_baseline_cells(name, figures), *[NOTHING] * (2 * len(names))])
    return comparison([*columns, *versus], rows, runs)


def _baseline_cells(name: str, figures: BaselineFigures) -> list[str]:
    return [
        name,
        ONE_CLIENT,
        number(figures.rtfx),
        percent(figures.accuracy.error_rate),
        *(number(value, 0) for value in figures.latency_ms.percentiles),
        number(figures.peak_memory_mb, 0),
    ]


def _versus(run: ComparedRun, names: Sequence[str]) -> list[str]:
    cells = []
    for name in names:
        other = run.versus[name]
        cells += [number(other.rtfx_ratio, 2), percent(other.wer_difference, sign=True)]
    return cells


def _word_errors(report: OfflineComparison) -> str:
    if all(item.judged.run.figures.accuracy.wer is None for item in report.runs):
        return ""
    header = ["word errors", "load", *ERROR_COLUMNS, f"deleted runs of {MIN_RUN}+"]
    rows = [
        [
            "conch",
            item.judged.run.title,
            *_error_cells(item.judged.run.figures.accuracy, item.judged.deleted_runs),
        ]
        for item in report.runs
    ]
    for name, figures in report.baselines.items():
        rows.append([name, ONE_CLIENT, *_error_cells(figures.accuracy, figures.deleted_runs)])
    return table(header, rows)


def _error_cells(accuracy: Accuracy, deleted_runs: Sequence[DeletedWords]) -> list[str]:
    words = accuracy.reference_words
    counts = (accuracy.substitutions, accuracy.deletions, accuracy.insertions)
    return [
        *map(str, (words, *counts)),
        percent(accuracy.wer),
        *(percent(count / words if words else None) for count in counts),
        str(len(deleted_runs)),
    ]


def _deleted_runs(report: OfflineComparison) -> str:
    first: JudgedRun = report.first.judged
    systems = {"conch": first.deleted_runs}
    systems |= {name: item.deleted_runs for name, item in report.baselines.items()}
    rows = [
        [
            Path(deleted.path).name,
            system,
            number(deleted.start),
            number(deleted.end),
            str(deleted.end_word - deleted.first_word),
            deleted.words,
        ]
        for system, runs in systems.items()
        for deleted in runs[:MOST_RUNS]
    ]
    left_out = "".join(
        f"\n\n{len(runs) - MOST_RUNS} more of {system} are in the JSON report."
        for system, runs in systems.items()
        if len(runs) > MOST_RUNS
    )
    header = ["deleted in", "by", "from s", "to s", "words", "which"]
    return table(header, rows) + left_out if rows else ""


def _what(joining: Joining | None) -> str:
    if joining is None:
        return "utterances"
    low, high = joining.pause_s
    call = ", telephone calls" if joining.is_telephone else ""
    return (
        f"recordings joined to {joining.seconds:g} s, pauses of {low:g} to {high:g} s with "
        f"{joining.between}{call} (seed {joining.seed})"
    )
