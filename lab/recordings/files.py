"""Joined recordings as files, so that Conch, a baseline and others get the same samples."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import soundfile

from conch.bench.load import progress
from conch.scoring.manifest import Utterance, spread
from conch.wire.errors import BenchError
from lab.manifest.writing import write_manifest, write_table
from lab.parts import JoinedUtterance
from lab.recordings.joined import JoinedRecording, Joining, groups, join
from lab.waveforms import duration_s, waveform_of


@contextmanager
def recordings_folder(save: Path | None) -> Iterator[Path]:
    """Yield the folder of the recordings: the user's empty one, or a temporary one.

    Raises:
        BenchError: the user's folder is not empty or cannot be created.
    """
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
    utterances: Sequence[Utterance], joining: Joining, folder: Path, limit: int | None = None
) -> list[JoinedUtterance]:
    """Join utterances, write the recordings to a folder and return them.

    A recording is a FLAC file, or a telephone call's WAV in G.711 µ-law. Next to them are a
    `manifest.tsv`, and `utterances.tsv` with the times of what they are made of.

    Args:
        utterances: in the order in which they are joined.
        joining: how.
        folder: an empty one.
        limit: largest number of recordings, spread evenly over all.

    Raises:
        BenchError: a file is missing or not audio.
        TooLittleSpeechError: there is not enough for one recording.
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
    path: Path, recording: JoinedRecording, members: Sequence[Utterance]
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
