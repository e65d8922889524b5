"""Write labels: texts that two recognisers agree on, and how accurate they are by references."""

import hashlib
import io
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import soundfile

from conch.bulk.cut import RequestPiece, audio_of
from conch.bulk.inputs import Source, read_audio, sources_of
from conch.bulk.storage import storage_errors, without_secrets
from conch.component import SAMPLE_RATE
from conch.pseudo_labels.compare import Side, TextPair
from conch.pseudo_labels.journal import Entry, path_in
from conch.scoring.error_rates import (
    Scoring,
    WordErrors,
    language_of,
    number,
    percent,
    pooled,
    table,
    word_errors,
)
from conch.scoring.manifest import ManifestEntry, read_manifest, spread
from conch.whole import made_whole
from conch.wire.errors import AudioError, BulkError
from conch.wire.options import RecognitionOptions

LABELS = ("path", "duration", "language", "cer", "text", "text_a", "text_b")
SEGMENTS = ("recording", "start", "end")
"""Further columns of labels of segments."""
REJECTED = ("path", "start", "end", "language", "cer", "reason", "text_a", "text_b")
"""There is no column `text`, so that training cannot use it as a manifest."""

Row = Mapping[str, str]
THRESHOLDS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)


@dataclass(frozen=True, slots=True)
class LabelFilter:
    max_cer: float
    text: Side = "a"
    """Recogniser whose text is the label."""
    cut: Path | None = None
    """Folder for the audio of segments; None labels whole files."""


def sources_to_label(
    names: Sequence[str],
    wanted: Mapping[str, str | None],
    limit: int | None = None,
    left_out: Counter[str] | None = None,
) -> list[Source]:
    """Return the recordings of `sources_of`, those of manifests with the `wanted` values."""
    values = {key: value for key, value in wanted.items() if value}
    sources = sources_of(names, keeps_columns=True, left_out=left_out)
    for source in sources:
        if source.row >= 0 or "://" in source.path:
            name = without_secrets(source.id)
            raise BulkError(f"{name}: not a file on this machine; a label needs a local path")
    kept = [item for item in sources if values.items() <= item.columns.items()]
    if not kept:
        conditions = " and ".join(f"{key} {value}" for key, value in values.items())
        raise BulkError(f"no line of a manifest has {conditions}")
    return spread(kept, limit)


def write_labels(out: Path, rule: LabelFilter, entries: Iterable[tuple[Source, Entry]]) -> None:
    """Write the manifest of the kept labels; further columns of an input manifest stay."""
    pairs = list(entries)
    own = (*LABELS, *SEGMENTS)
    further = dict.fromkeys(key for source, _ in pairs for key in source.columns if key not in own)
    columns = (*LABELS, *(SEGMENTS if rule.cut else ()), *further)

    def rows() -> Iterator[Row]:
        for source, entry in pairs:
            kept = [item for item in entry.stretches if item.is_kept(rule.max_cer)]
            path = Path(source.path)
            paths = _cut(source, kept, rule.cut) if rule.cut else [path] * len(kept)
            for stretch, audio in zip(kept, paths, strict=True):
                yield {
                    **source.columns,
                    **_cells(stretch),
                    "path": path_in(audio, out),
                    "duration": f"{stretch.seconds:.2f}",
                    "text": stretch.text(rule.text),
                    "recording": path_in(path, out),
                }

    _write(out, columns, rows())


def write_rejected(out: Path, rule: LabelFilter, entries: Iterable[tuple[Source, Entry]]) -> None:

    def rows() -> Iterator[Row]:
        for source, entry in entries:
            path = {"path": path_in(Path(source.path), out)}
            if entry.error:
                yield {**path, "reason": " ".join(entry.error.split())}
            elif not entry.stretches:
                yield {**path, "reason": "no speech"}
            for stretch in entry.stretches:
                if not stretch.is_kept(rule.max_cer):
                    yield {**path, **_cells(stretch), "reason": _reason(stretch)}

    _write(out, REJECTED, rows())


def _reason(stretch: TextPair) -> str:
    lacking = [side for side, text in (("a", stretch.text_a), ("b", stretch.text_b)) if not text]
    if lacking:
        return f"no text by {' and '.join(lacking)}"
    return "other texts" if stretch.characters else "no words in the text by a"


def _cells(stretch: TextPair) -> Row:
    return {
        "start": f"{stretch.start:.2f}",
        "end": f"{stretch.end:.2f}",
        "language": stretch.language,
        "cer": f"{stretch.cer:.4f}",
        "text_a": stretch.text_a,
        "text_b": stretch.text_b,
    }


def _write(out: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    errors = storage_errors(f"{out} cannot be written")
    with errors, made_whole(out) as made, made.open("wb") as file:
        for row in ({name: name for name in columns}, *rows):
            cells = (row.get(name, "").replace("\t", " ").splitlines() for name in columns)
            line = "\t".join(map(" ".join, cells)) + "\n"
            file.write(line.encode(errors="backslashreplace"))


def _cut(source: Source, kept: Sequence[TextPair], folder: Path) -> list[Path]:
    """Write the audio of segments that is not there yet, 16 kHz mono; return its files."""
    # Two folders may hold files of one name.
    digest = hashlib.sha256(os.fsencode(source.path)).hexdigest()[:8]
    name = f"{Path(source.path).stem}-{digest}"
    paths = [
        folder.absolute() / f"{name}-{item.start:09.2f}-{item.end:09.2f}.flac" for item in kept
    ]
    if all(path.is_file() for path in paths):
        return paths
    pieces: list[RequestPiece] = []
    for item in kept:
        # Padding may overlap; each sample goes to one segment.
        first = max(round(item.start * SAMPLE_RATE), pieces[-1].end if pieces else 0)
        pieces.append(RequestPiece(0, first, max(first, round(item.end * SAMPLE_RATE))))
    try:
        audio = audio_of(read_audio(source), RecognitionOptions(), pieces)
        for path, (_, samples) in zip(paths, audio, strict=True):
            content = io.BytesIO()
            soundfile.write(content, samples, SAMPLE_RATE, format="FLAC")
            errors = storage_errors(f"--cut {folder} cannot be written")
            with errors, made_whole(path, sync=False) as made:
                made.write_bytes(content.getvalue())
    except AudioError as error:
        raise BulkError(f"{source.path}: {error}") from None
    return paths


@dataclass(frozen=True, slots=True)
class JudgedLabel:
    stretch: TextPair
    errors: WordErrors


def judged(
    entries: Sequence[tuple[Source, Entry]], references: Path, text: Side = "a"
) -> list[JudgedLabel]:
    """Return the labels of whole recordings that have a reference, with their errors."""
    known: Mapping[Path, ManifestEntry] = {
        item.path.resolve(): item for item in read_manifest(references) if item.text
    }
    labels = []
    for source, entry in entries:
        reference = known.get(Path(source.path).resolve())
        if reference is None:
            continue
        for stretch in entry.stretches:
            language = language_of(reference.language, stretch.language)
            scoring = Scoring.of("auto", language)
            labels.append(
                JudgedLabel(stretch, word_errors(reference.text, stretch.text(text), scoring))
            )
    if not labels:
        raise BulkError(f"--references {references} has no text of any of these recordings")
    return labels


def markdown(items: Sequence[JudgedLabel], max_cer: float) -> str:
    """Return a table of what each threshold keeps, for words and for characters each."""
    titles = sorted({item.errors.scoring.title for item in items})
    metrics = sorted({item.errors.scoring.metric for item in items}, reverse=True)
    tables = [
        _table([item for item in items if item.errors.scoring.metric == metric], metric, max_cer)
        for metric in metrics
    ]
    line = f"Error rates against the references: {'; '.join(titles)}."
    return "\n\n".join([*tables, line]) + "\n"


def _table(items: Sequence[JudgedLabel], metric: str, max_cer: float) -> str:
    columns = ["max CER", "kept", "hours", "hours %", f"{metric.upper()} %", "without an error %"]
    rows = []
    for threshold in sorted({*THRESHOLDS, max_cer}):
        kept = [item for item in items if item.stretch.is_kept(threshold)]
        rows.append([f"{threshold:g}", *_accuracy_cells(kept, items)])
    rows.append(["all", *_accuracy_cells(items, items)])
    return table(columns, rows)


def _accuracy_cells(kept: Sequence[JudgedLabel], items: Sequence[JudgedLabel]) -> list[str]:
    seconds, all_s = (sum(item.stretch.seconds for item in group) for group in (kept, items))
    perfect = sum(item.errors.errors == 0 for item in kept)
    return [
        str(len(kept)),
        number(seconds / 3600, 2),
        number(100 * seconds / all_s if all_s else None),
        percent(pooled(item.errors for item in kept).wer),
        number(100 * perfect / len(kept) if kept else None),
    ]
