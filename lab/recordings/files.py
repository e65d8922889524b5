"""Joined recordings as files, so that Conch, a baseline and others get the same samples."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import soundfile

from conch.bench.load import progress
from conch.scoring.manifest import ManifestEntry, spread
from conch.wire.errors import BenchError
from lab.parts import JoinedUtterance
from lab.recordings.joined import JoinedRecording, Joining, groups, join
from lab.waveforms import duration_s, waveform_of


@contextmanager
def recordings_folder(save: Path | None) -> Iterator[Path]:
    """Yield the folder of the recordings: the user's empty one, or a temporary one."""
    if save is None:
        with TemporaryDirectory(prefix="conch-recordings-") as folder:
            yield Path(folder)
        return
    try:
        save.mkdir(parents=True, exist_ok=True)
        is_empty = not any(save.iterdir())
    except OSError as error:
        raise BenchError(f"folder {save} cannot be used: {error}") from None
    if not is_empty:
        raise BenchError(f"folder {save} holds files already; recordings need an empty folder")
    yield save


def write_recordings(
    utterances: Sequence[ManifestEntry], joining: Joining, folder: Path, limit: int | None = None
) -> list[JoinedUtterance]:
    """Join utterances, write the recordings to a folder and return them.

    A recording is a FLAC file, or a telephone call's WAV in G.711 µ-law. Next to them are a
    `manifest.tsv`, and `utterances.tsv` with the times of what they are made of.
    """
    durations_s = [duration_s(utterance.path) for utterance in utterances]
    chosen = spread(groups(durations_s, joining), limit)
    made = []
    with progress("joining", len(chosen)) as bar:
        for group in chosen:
            members = [utterances[index] for index in group.indices]
            waveforms = [waveform_of(item.path) for item in members]
            recording = join(members, waveforms, group, joining)
            path = folder / _name(group.number, joining)
            _write(path, recording, joining)
            made.append(_utterance(path, recording, members))
            bar.update()
    write_manifest(folder / "manifest.tsv", made)
    write_table(
        folder / "utterances.tsv",
        ("recording", "start", "end", "path", "text"),
        [
            (item.path.name, f"{part.start_s:.3f}", f"{part.end_s:.3f}", str(part.path), part.text)
            for item in made
            for part in item.parts
        ],
    )
    return made


def _name(number: int, joining: Joining) -> str:
    return f"recording-{number + 1:04}.{'wav' if joining.is_telephone else 'flac'}"


def _write(path: Path, recording: JoinedRecording, joining: Joining) -> None:
    subtype = "ULAW" if joining.is_telephone else "PCM_16"
    soundfile.write(path, recording.waveform, recording.sample_rate, subtype=subtype)


def _utterance(
    path: Path, recording: JoinedRecording, members: Sequence[ManifestEntry]
) -> JoinedUtterance:
    splits = {member.split for member in members}
    languages = {member.language for member in members}
    return JoinedUtterance(
        path=path,
        text=recording.text,
        split=splits.pop() if len(splits) == 1 else "",
        source=recording.source,
        language=languages.pop() if len(languages) == 1 else "",
        parts=recording.parts,
    )


def write_manifest(file: Path, utterances: Iterable[ManifestEntry]) -> None:
    """Write a manifest that `read_manifest` reads, with paths relative to it."""
    write_table(
        file,
        ("path", "split", "source", "text"),
        [
            (os.path.relpath(item.path, file.parent), item.split, item.source, item.text)
            for item in utterances
        ],
    )


def write_table(file: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write lines of fields, or raise a BenchError if a tab or a line break is in one."""
    lines = ["\t".join(header)]
    for row in rows:
        if any(len(field.splitlines()) > 1 or "\t" in field for field in row):
            raise BenchError(f"a tab or a line break is in a field for {file}: {row}")
        lines.append("\t".join(row))
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
