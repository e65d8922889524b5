"""Write the texts that two recognisers agree on as a manifest, and the rest to another file."""

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
from conch.pseudo_labels.journal import Entry
from conch.scoring.manifest import spread
from conch.whole import made_whole
from conch.wire.errors import AudioError, BulkError
from conch.wire.options import RecognitionOptions

LABELS = ("path", "duration", "language", "cer", "text", "text_a", "text_b")
SEGMENTS = ("recording", "start", "end")
"""Further columns of labels of segments."""
REJECTED = ("path", "start", "end", "language", "cer", "reason", "text_a", "text_b")
"""There is no column `text`, so that training cannot use it as a manifest."""

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LabelFilter:
    """What is kept, and how."""

    max_cer: float
    text: Side = "a"
    """Recogniser whose text is the label."""
    cut: Path | None = None
    """Folder for the audio of segments; None labels whole files."""

    def is_kept(self, stretch: TextPair) -> bool:
        """Return whether a stretch gets a label."""
        return stretch.is_kept(self.max_cer)


def sources_to_label(
    names: Sequence[str],
    wanted: Mapping[str, str | None],
    limit: int | None = None,
    left_out: Counter[str] | None = None,
) -> list[Source]:
    """Return the recordings of all inputs, in order and each once.

    Inputs are folders, globs, manifests (.tsv with a column path) and files on this machine. Lines
    of manifests must have the `wanted` values of columns; None is any. Raise a BulkError if an
    input cannot be read, holds nothing, or is not on this machine, or no recording is left; and a
    BenchError if a manifest has a broken line.
    """
    values = {key: value for key, value in wanted.items() if value}
    sources = sources_of(names, keeps_columns=True, left_out=left_out)
    for source in sources:
        if source.row >= 0 or "://" in source.path:
            name = without_secrets(source.id)
            raise BulkError(f"{name}: not a file on this machine; a label needs a local path")
    kept = [item for item in sources if values.items() <= item.columns.items()]
    if not kept:
        asked = " and ".join(f"{key} {value}" for key, value in values.items())
        raise BulkError(f"no line of a manifest has {asked}")
    return spread(kept, limit)


def problem_of_name(source: Source, manifest: Path) -> str:
    """Return why a manifest cannot hold the path of a recording; empty if it can."""
    name = _path_in(Path(source.path), manifest)
    try:
        name.encode()
    except UnicodeEncodeError:
        return "the file's name is not UTF-8, and a manifest cannot hold it"
    if "\t" in name or name.splitlines() != [name] or name.strip() != name:
        return "the file's name has a tab, an end of line or a space at an end"
    return ""


def write_labels(out: Path, rule: LabelFilter, entries: Iterable[tuple[Source, Entry]]) -> None:
    """Write the manifest of the kept labels; it appears whole.

    The columns of an input manifest stay, except those that are written here. Raise a BulkError if
    a file cannot be written, or a recording is gone.
    """
    pairs = list(entries)
    own = (*LABELS, *SEGMENTS)
    further = dict.fromkeys(key for source, _ in pairs for key in source.columns if key not in own)
    columns = (*LABELS, *(SEGMENTS if rule.cut else ()), *further)

    def rows() -> Iterator[Row]:
        for source, entry in pairs:
            kept = [item for item in entry.stretches if rule.is_kept(item)]
            path = Path(source.path)
            paths = _cut(source, kept, rule.cut) if rule.cut else [path] * len(kept)
            for stretch, audio in zip(kept, paths, strict=True):
                yield {
                    **source.columns,
                    **_cells(stretch),
                    "path": _path_in(audio, out),
                    "duration": f"{stretch.seconds:.2f}",
                    "text": stretch.text(rule.text),
                    "recording": _path_in(path, out),
                }

    _write(out, columns, rows())


def write_rejected(out: Path, rule: LabelFilter, entries: Iterable[tuple[Source, Entry]]) -> None:
    """Write the rejected texts with the reason, and failed recordings, or raise a BulkError."""

    def rows() -> Iterator[Row]:
        for source, entry in entries:
            path = {"path": _path_in(Path(source.path), out)}
            if entry.error:
                yield {**path, "reason": " ".join(entry.error.split())}
            elif not entry.stretches:
                yield {**path, "reason": "no speech"}
            for stretch in entry.stretches:
                if not rule.is_kept(stretch):
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


def _path_in(path: Path, manifest: Path) -> str:
    """Return a path as a manifest names it: from its own folder, if it is in there."""
    folder = manifest.absolute().parent
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


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
