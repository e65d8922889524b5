"""Write what two recognisers agree on as a manifest, and what they do not to another file."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import soundfile

from conch.agree.inputs import Clip
from conch.agree.journal import Entry
from conch.agree.stretches import Side, Stretch
from conch.bulk.cut import Piece, audio_of
from conch.bulk.inputs import read_audio
from conch.component.waveform import SAMPLE_RATE
from conch.wire.errors import AgreeError, AudioError
from conch.wire.options import RecognitionOptions

LABELS = ("path", "duration", "language", "cer", "text", "text_a", "text_b")
SEGMENTS = ("recording", "start", "end")
"""Further columns of labels of segments."""
REJECTED = ("path", "start", "end", "language", "cer", "reason", "text_a", "text_b")
"""Without a column `text`, no training takes it for a manifest."""

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Rule:
    """What is kept, and how."""

    max_cer: float
    text: Side = "a"
    """Whose text is the label."""
    cut: Path | None = None
    """Folder for the audio of segments; None labels whole files."""

    def is_kept(self, stretch: Stretch) -> bool:
        """Return whether a stretch gets a label."""
        return stretch.is_kept(self.max_cer)


def check_name(clip: Clip, out: Path) -> None:
    """Check that a manifest can hold the path of a recording.

    Raises:
        AgreeError: its name has a tab or the end of a line, begins or ends with a space, or is not
            UTF-8.
    """
    name = _path_in(clip.path, out)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise AgreeError("the file's name is not UTF-8, and a manifest cannot hold it") from None
    if "\t" in name or name.splitlines() != [name] or name.strip() != name:
        raise AgreeError("the file's name has a tab, an end of line or a space at an end")


def write_labels(out: Path, rule: Rule, heard: Iterable[tuple[Clip, Entry]]) -> None:
    """Write the manifest of what is kept; it appears whole, when all of it is there.

    The columns of an input manifest stay, except those that are written here.

    Args:
        out: The manifest.
        rule: What is kept. With `cut`, the audio of each kept segment is written there.
        heard: The recordings without an error.

    Raises:
        AgreeError: a file cannot be written, or a recording is gone.
    """
    pairs = list(heard)
    own = (*LABELS, *SEGMENTS)
    further = dict.fromkeys(name for clip, _ in pairs for name in clip.columns if name not in own)
    columns = (*LABELS, *(SEGMENTS if rule.cut else ()), *further)

    def rows() -> Iterator[Row]:
        for clip, entry in pairs:
            kept = [item for item in entry.stretches if rule.is_kept(item)]
            places = _cut(clip, kept, rule.cut) if rule.cut else [clip.path] * len(kept)
            for stretch, place in zip(kept, places, strict=True):
                told = {
                    "path": _path_in(place, out),
                    "duration": f"{stretch.seconds:.2f}",
                    "text": stretch.text(rule.text),
                    "recording": _path_in(clip.path, out),
                    **_told(stretch),
                }
                yield {**clip.columns, **told}

    _write(out, columns, rows())


def write_rejected(out: Path, rule: Rule, heard: Iterable[tuple[Clip, Entry]]) -> None:
    """Write what is not kept, with both texts and the reason, and recordings that failed.

    Raises:
        AgreeError: the file cannot be written.
    """

    def rows() -> Iterator[Row]:
        for clip, entry in heard:
            path = {"path": _path_in(clip.path, out)}
            if entry.error:
                yield {**path, "reason": " ".join(entry.error.split())}
            elif not entry.stretches:
                yield {**path, "reason": "no speech"}
            for stretch in entry.stretches:
                if not rule.is_kept(stretch):
                    yield {**path, **_told(stretch), "reason": _reason(stretch)}

    _write(out, REJECTED, rows())


def _reason(stretch: Stretch) -> str:
    lacking = [side for side, text in (("a", stretch.text_a), ("b", stretch.text_b)) if not text]
    if lacking:
        return f"no text by {' and '.join(lacking)}"
    return "other texts" if stretch.characters else "no words in the text by a"


def _told(stretch: Stretch) -> Row:
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
    temporary = out.with_name(f".{out.name}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("\t".join(columns) + "\n")
            for row in rows:
                cells = (row.get(name, "").replace("\t", " ").splitlines() for name in columns)
                file.write("\t".join(map(" ".join, cells)) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(out)
    except OSError as error:
        raise AgreeError(f"{out} cannot be written: {error.strerror or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


def _cut(clip: Clip, kept: Sequence[Stretch], folder: Path) -> list[Path]:
    """Write the audio of segments that is not there yet, 16 kHz mono; return its files."""
    # Two folders may hold files of one name.
    digest = hashlib.sha256(os.fsencode(clip.path)).hexdigest()[:8]
    paths = [
        folder.absolute() / f"{clip.path.stem}-{digest}-{item.start:09.2f}-{item.end:09.2f}.flac"
        for item in kept
    ]
    if all(path.is_file() for path in paths):
        return paths
    pieces: list[Piece] = []
    for item in kept:
        # Padding may overlap; each sample goes to one segment.
        first = max(round(item.start * SAMPLE_RATE), pieces[-1].end if pieces else 0)
        pieces.append(Piece(0, first, max(first, round(item.end * SAMPLE_RATE))))
    try:
        audio = audio_of(read_audio(clip.source), RecognitionOptions(), pieces)
        for path, (_, samples) in zip(paths, audio, strict=True):
            temporary = path.with_name(f".{path.name}.tmp")
            soundfile.write(temporary, samples, SAMPLE_RATE, format="FLAC")
            temporary.replace(path)
    except AudioError as error:
        raise AgreeError(f"{clip.path}: {error}") from None
    except (OSError, soundfile.LibsndfileError) as error:
        raise AgreeError(f"--cut {folder} cannot be written: {error}") from None
    return paths
