"""`python -m lab offline`: its report as Markdown."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from conch.bench.header import origin
from conch.bench.load import Offer
from conch.bench.offline import columns_of, comparison, run_cells, scoring_line
from conch.cli.bench import (
    LIMIT,
    METRIC,
    OPTION,
    SEND,
    add_offered,
    add_server,
    loads_of,
    served_by,
    settings_of,
)
from conch.scoring.error_rates import NOTHING, Accuracy, number, percent, table
from lab.alignment import MIN_RUN, DeletedWords
from lab.arguments import JOINING, joining
from lab.baselines.faster_whisper import BATCHES
from lab.baselines.sherpa_onnx_moonshine import FORMATS
from lab.command import Command, reporting
from lab.figures import BaselineFigures, JudgedRun
from lab.offline.benchmark import ComparisonBenchmark, OfflineComparison, run
from lab.recordings.joined import Joining
from lab.reports import page

ERROR_COLUMNS = ("words", "sub", "del", "ins", "WER %", "sub %", "del %", "ins %")
MOST_RUNS = 40
"""Largest number of listed deleted runs of a system; the JSON report has all."""
ONE_CLIENT = Offer(concurrency=1).title
"""The load of a baseline."""


def markdown(report: OfflineComparison) -> str:
    runs = [item.run for item in report.runs]
    figures = report.first.run.figures
    return page(
        report.header,
        _comparison(report),
        _word_errors(report),
        _deleted_runs(report),
        scoring_line(runs),
        origin(report.header, f"{figures.utterances} {_what(report.joining)}", figures.audio_s),
    )


def _comparison(report: OfflineComparison) -> str:
    names, runs = list(report.baselines), [item.run for item in report.runs]
    columns = columns_of(runs)
    rate = "CER" if "CER %" in columns else "WER"
    versus = [title for name in names for title in (f"RTFx / {name}", f"{rate} - {name}")]
    rows = [[*run_cells(item.run), *_versus(item, names)] for item in report.runs]
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


def _versus(run: JudgedRun, names: Sequence[str]) -> list[str]:
    cells = []
    for name in names:
        other = run.versus[name]
        cells += [number(other.rtfx_ratio, 2), percent(other.wer_difference, sign=True)]
    return cells


def _word_errors(report: OfflineComparison) -> str:
    if all(item.run.figures.accuracy.wer is None for item in report.runs):
        return ""
    header = ["word errors", "load", *ERROR_COLUMNS, f"deleted runs of {MIN_RUN}+"]
    rows = [
        [
            "conch",
            item.run.title,
            *_error_cells(item.run.figures.accuracy, item.deleted_runs),
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
    first = report.first
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


NAMES = ",".join([*BATCHES, *FORMATS])
BASELINE = f"""
--baseline {{{NAMES}}}  measure this too, on the same recordings, in one process: with the weights
                        of the server's Whisper (batched decodes 8 segments of a recording at once),
                        or of its Moonshine, from the files of its packages or from ONNX made of
                        them
"""


def _measured(args: argparse.Namespace) -> OfflineComparison:
    return run(
        settings_of(
            ComparisonBenchmark,
            args,
            **served_by(args),
            **loads_of(args, 1),
            joining=joining(args),
        )
    )


def _has_failed(report: OfflineComparison) -> bool:
    figures = [item.run.figures for item in report.runs]
    return any(item.errors == item.utterances for item in figures)


def _add(parser: argparse.ArgumentParser) -> None:
    how = parser.add_argument_group("how")
    add_offered(how)
    add_server(how)


COMMAND = Command(
    run=reporting(_measured, markdown, has_failed=_has_failed),
    description="Do what `conch bench offline` does, of long recordings too that are joined of "
    "utterances, and next to a baseline.",
    epilog="""
examples:
  python -m lab offline --manifest speech/manifest.tsv --split dev --concurrency 1,8 \\
      --baseline faster-whisper --json offline.json --markdown offline.md
  python -m lab offline --manifest speech/manifest.tsv --split dev --join 600 --pause 1,3 \\
      --between music --baseline faster-whisper
""",
    flags=LIMIT + SEND + OPTION + METRIC + JOINING + BASELINE,
    add=_add,
    takes_manifest=True,
)
