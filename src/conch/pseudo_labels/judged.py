"""The accuracy and number of the kept labels, where references are known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conch.bulk.inputs import Source
from conch.pseudo_labels.compare import Side, TextPair
from conch.pseudo_labels.journal import Entry
from conch.scoring.error_rates import Scoring, WordErrors, language_of, pooled, word_errors
from conch.scoring.manifest import Utterance, read_manifest
from conch.scoring.tables import number, percent, table
from conch.wire.errors import BulkError

THRESHOLDS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True, slots=True)
class Judged:
    """One label with its reference."""

    stretch: TextPair
    errors: WordErrors


def judged(
    entries: Sequence[tuple[Source, Entry]], references: Path, text: Side = "a"
) -> list[Judged]:
    """Return the recordings that have a reference, with the errors of their labels.

    `entries` are recordings without an error, each as a whole.
    """
    known: Mapping[Path, Utterance] = {
        item.path.resolve(): item for item in read_manifest(references) if item.text
    }
    found = []
    for source, entry in entries:
        reference = known.get(Path(source.path).resolve())
        if reference is None:
            continue
        for stretch in entry.stretches:
            language = language_of(reference.language, stretch.language)
            scoring = Scoring.of("auto", language)
            found.append(Judged(stretch, word_errors(reference.text, stretch.text(text), scoring)))
    if not found:
        raise BulkError(f"--references {references} has no text of any of these recordings")
    return found


def markdown(items: Sequence[Judged], max_cer: float) -> str:
    """Return a table of what each threshold keeps, and of everything in its last row.

    Labels that are judged in words and those that are judged in characters have a table each.
    """
    titles = sorted({item.errors.scoring.title for item in items})
    metrics = sorted({item.errors.scoring.metric for item in items}, reverse=True)
    tables = [
        _table([item for item in items if item.errors.scoring.metric == metric], metric, max_cer)
        for metric in metrics
    ]
    line = f"Error rates against the references: {'; '.join(titles)}."
    return "\n\n".join([*tables, line]) + "\n"


def _table(items: Sequence[Judged], metric: str, max_cer: float) -> str:
    columns = ["max CER", "kept", "hours", "hours %", f"{metric.upper()} %", "without an error %"]
    rows = []
    for threshold in sorted({*THRESHOLDS, max_cer}):
        kept = [item for item in items if item.stretch.is_kept(threshold)]
        rows.append([f"{threshold:g}", *_cells(kept, items)])
    rows.append(["all", *_cells(items, items)])
    return table(columns, rows)


def _cells(kept: Sequence[Judged], items: Sequence[Judged]) -> list[str]:
    seconds, all_s = (sum(item.stretch.seconds for item in found) for found in (kept, items))
    perfect = sum(item.errors.errors == 0 for item in kept)
    return [
        str(len(kept)),
        number(seconds / 3600, 2),
        number(100 * seconds / all_s if all_s else None),
        percent(pooled(item.errors for item in kept).wer),
        number(100 * perfect / len(kept) if kept else None),
    ]
