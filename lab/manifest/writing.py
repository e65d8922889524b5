"""Write manifests and other tables."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from conch.scoring.manifest import Utterance
from conch.wire.errors import BenchError
from lab.waveforms import duration_s


def write_manifest(file: Path, utterances: Iterable[Utterance]) -> None:
    """Write a manifest that `read_manifest` reads, with paths relative to it.

    Durations are informative, and empty if only decoding would find them.

    Raises:
        BenchError: a tab or a line break is in a field, a file is no audio, or the manifest cannot
            be written.
    """
    write_table(
        file,
        ("path", "duration", "split", "source", "text"),
        [
            (_relative(item.path, file), _seconds(item.path), item.split, item.source, item.text)
            for item in utterances
        ],
    )


def write_table(file: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write lines of fields separated by tabs.

    Raises:
        BenchError: a tab or a line break is in a field, or the file cannot be written.
    """
    lines = ["\t".join(header)]
    for row in rows:
        if any(len(field.splitlines()) > 1 or "\t" in field for field in row):
            raise BenchError(f"a tab or a line break is in a field for {file}: {row}")
        lines.append("\t".join(row))
    try:
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise BenchError(f"{file} cannot be written: {error}") from None


def _seconds(path: Path) -> str:
    """Return the seconds of a file as text, empty if only decoding would find them."""
    return f"{duration_s(path):.2f}" if path.suffix in (".flac", ".wav") else ""


def _relative(path: Path, file: Path) -> str:
    return os.path.relpath(path.resolve(), file.parent.resolve())
