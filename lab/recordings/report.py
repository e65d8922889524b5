"""A report of `python -m lab recordings` as Markdown."""

from collections.abc import Callable, Sequence
from pathlib import Path

from conch.bench.report import origin
from conch.scoring.tables import number, percent, table
from lab.baselines.faster_whisper import NAME
from lab.figures import DeletedWords, Scored
from lab.offline.report import MOST_RUNS
from lab.recordings.cases import CaseFigures, RecordingsReport


def markdown(report: RecordingsReport) -> str:
    """Return the table of the cases, the deleted runs, and a line on where they come from."""
    cases = report.cases
    recordings = sum(case.conch.run.figures.utterances for case in cases)
    audio_s = 60 * sum(case.minutes for case in cases)
    parts = [
        f"`{report.header.command}`",
        _table(cases),
        _notes(report),
        _errors(cases),
        _runs(cases),
        origin(report.header, f"{recordings} recordings", audio_s),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(cases: Sequence[CaseFigures]) -> str:
    """Return the main table, a row for each case."""
    is_compared = _is_compared(cases)
    compared = ["RTFx / fw", "only conch"] if is_compared else []
    paired = _beside(("WER %", "del %", "runs", "RTFx"), is_compared)
    header = ["case", "recordings", "min", *paired, *compared, "took min"]
    rows = [
        [
            case.title,
            str(case.conch.run.figures.utterances),
            number(case.minutes, 0),
            *_paired(case, _figures),
            *_versus(case),
            number(case.took_s / 60),
        ]
        for case in cases
    ]
    return table(header, rows)


def _errors(cases: Sequence[CaseFigures]) -> str:
    """Return the counts of word errors, a row for each case."""
    header = ["word errors", *_beside(("words", "sub", "del", "ins"), _is_compared(cases))]
    return table(header, [[case.title, *_paired(case, _counts)] for case in cases])


def _is_compared(cases: Sequence[CaseFigures]) -> bool:
    return any(case.baseline for case in cases)


def _beside(titles: Sequence[str], is_compared: bool) -> list[str]:
    """Return columns of conch and, beside each, one of the baseline."""
    return [name for title in titles for name in ((title, "fw") if is_compared else (title,))]


def _paired(case: CaseFigures, cells: Callable[[Scored], Sequence[str]]) -> list[str]:
    systems = [cells(case.conch.scored)]
    if case.baseline:
        systems.append(cells(case.baseline.scored))
    return [cell for pair in zip(*systems, strict=True) for cell in pair]


def _figures(scored: Scored) -> list[str]:
    accuracy = scored.judged.accuracy
    words = accuracy.reference_words
    return [
        percent(accuracy.wer),
        percent(accuracy.deletions / words if words else None),
        str(len(scored.judged.deleted_runs)),
        number(scored.rtfx),
    ]


def _counts(scored: Scored) -> list[str]:
    found = scored.judged.accuracy
    counts = (found.reference_words, found.substitutions, found.deletions, found.insertions)
    return list(map(str, counts))


def _versus(case: CaseFigures) -> list[str]:
    found = case.versus
    if not found:
        return []
    return [number(found.rtfx_ratio, 2), str(len(found.deleted_runs_alone))]


def _notes(report: RecordingsReport) -> str:
    cases = report.cases
    notes = ["runs: of three and more words in a row that are missing in the text."]
    if any(case.baseline for case in cases):
        notes.append(
            f"fw: {NAME} on the same recordings. only conch: runs of which {NAME} has lost no word."
        )
    errors = sum(case.conch.run.figures.errors for case in cases)
    if errors:
        notes.append(f"**{errors} recordings failed and do not count.**")
    notes += [f"{item.name} is left out: {item.reason}." for item in report.left_out]
    return " ".join(notes)


def _runs(cases: Sequence[CaseFigures]) -> str:
    """Return a table of the runs that conch has deleted."""
    lost = [(case, run) for case in cases for run in case.conch.deleted_runs]
    rows = [
        [
            case.title,
            Path(run.path).stem,
            number(run.start),
            number(run.end),
            run.words,
            *_also_lost(case, run),
        ]
        for case, run in lost[:MOST_RUNS]
    ]
    header = ["deleted in", "recording", "from s", "to s", "words"]
    if any(case.versus for case in cases):
        header.append(f"by {NAME} too")
    more = f"\n\n{len(lost) - MOST_RUNS} more are in the JSON report." if lost[MOST_RUNS:] else ""
    return table(header, rows) + more if rows else ""


def _also_lost(case: CaseFigures, run: DeletedWords) -> list[str]:
    if not case.versus:
        return []
    return ["no" if run in case.versus.deleted_runs_alone else "yes"]
