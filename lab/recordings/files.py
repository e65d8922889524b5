"""Joined recordings as files, so that Conch, a baseline and others get the same samples."""

from collections.abc import Sequence
from pathlib import Path

import soundfile

from conch.bench.load import progress
from conch.scoring.manifest import ManifestEntry, spread
from lab.alignment import JoinedUtterance
from lab.recordings.joined import JoinedRecording, Joining, common, groups, join
from lab.waveforms import duration_s, waveform_of


def write_recordings(
    utterances: Sequence[ManifestEntry], joining: Joining, folder: Path, limit: int | None = None
) -> list[JoinedUtterance]:
    """Join utterances, write the recordings to a folder and return them.

    A recording is a FLAC file, or a telephone call's WAV in G.711 µ-law.
    """
    durations_s = [duration_s(utterance.path) for utterance in utterances]
    chosen = spread(groups(durations_s, joining), limit)
    made = []
    with progress("joining", len(chosen)) as bar:
        for group in chosen:
            members = [utterances[index] for index in group.indices]
            waveforms = [waveform_of(item.path) for item in members]
            recording = join(members, waveforms, group, joining)
            suffix, subtype = (".wav", "ULAW") if joining.is_telephone else (".flac", "PCM_16")
            path = folder / f"recording-{group.number + 1:04}{suffix}"
            soundfile.write(path, recording.waveform, recording.sample_rate, subtype=subtype)
            made.append(_utterance(path, recording, members))
            bar.update()
    return made


def _utterance(
    path: Path, recording: JoinedRecording, members: Sequence[ManifestEntry]
) -> JoinedUtterance:
    return JoinedUtterance(
        path=path,
        text=recording.text,
        split=common((member.split for member in members), ""),
        source=recording.source,
        language=common((member.language for member in members), ""),
        parts=recording.parts,
    )
