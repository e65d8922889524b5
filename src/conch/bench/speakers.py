"""Speaker labels of recordings whose turns are known: errors, and the number of speakers."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conch.bench.header import Flat, Header, header
from conch.bench.load import closed_loop, progress
from conch.bench.report import origin
from conch.bench.servers import server_of, triton_version
from conch.bench.turns import NO_ERRORS, SpeakerErrors, errors, read_rttm
from conch.client import AsyncClient
from conch.scoring.tables import number, percent, table
from conch.wire.errors import BenchError
from conch.wire.result import Transcript, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakersBenchmark:
    files: tuple[Path, ...]
    rttm: Path | None = None
    """Turns of all files, or a folder with a file for each; None: each is next to its recording."""
    collar_s: float = 0.0
    is_number_given: bool = False
    url: str | None = None
    weights: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingErrors:
    name: str
    audio_s: float
    answer_s: float
    speakers: int
    found: int
    errors: Flat[SpeakerErrors]
    der: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakersReport:
    header: Flat[Header]
    collar_s: float
    der: float
    """Diarization error rate of the speech of all recordings together."""
    recordings: Sequence[RecordingErrors]


def run(benchmark: SpeakersBenchmark) -> SpeakersReport:
    known = [turns_of(file, benchmark.rttm) for file in benchmark.files]
    begun = header("speakers", benchmark)
    with server_of(benchmark.url, benchmark.weights) as (url, _):
        version = triton_version(url, benchmark.headers)
        answers = asyncio.run(_answers(url, benchmark, known))
    found = [
        _figures(file, turns, transcript, answer_s, benchmark.collar_s)
        for file, turns, (transcript, answer_s) in zip(benchmark.files, known, answers, strict=True)
    ]
    return SpeakersReport(
        header=begun.with_triton(version),
        collar_s=benchmark.collar_s,
        der=round(_total(found).rate, 4),
        recordings=found,
    )


def turns_of(file: Path, rttm: Path | None) -> list[Turn]:
    where = file.with_suffix(".rttm") if rttm is None else rttm
    if where.is_dir():
        where /= f"{file.stem}.rttm"
    try:
        known = read_rttm(where.read_text(encoding="utf-8"), str(where))
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"the turns of {file} cannot be read: {error}") from None
    if turns := known.get(file.stem):
        return turns
    raise BenchError(f"{where} has no turns of {file.stem}; it has: {', '.join(known) or 'none'}")


async def _answers(
    url: str, benchmark: SpeakersBenchmark, known: Sequence[Sequence[Turn]]
) -> list[tuple[Transcript, float]]:
    """Return each answer and its seconds; one file is sent after the other."""
    async with AsyncClient(url, headers=benchmark.headers) as client:
        with progress("recordings", len(known)) as bar:

            async def send(index: int) -> Transcript:
                speakers = _number(known[index]) if benchmark.is_number_given else "auto"
                options = {"speakers": speakers, **benchmark.options}
                found = await client.transcribe(benchmark.files[index], **options)
                bar.update()
                return found

            load = await closed_loop(send, len(known), 1)
    for outcome in load.outcomes:
        if outcome.error:
            raise BenchError(f"{benchmark.files[outcome.index]}: {outcome.error}")
    return [(item.answer, item.latency_s) for item in load.outcomes if item.answer is not None]


def _figures(
    file: Path, known: Sequence[Turn], transcript: Transcript, answer_s: float, collar_s: float
) -> RecordingErrors:
    found = errors(known, transcript.turns, collar_s)
    return RecordingErrors(
        name=file.name,
        audio_s=transcript.duration,
        answer_s=round(answer_s, 3),
        speakers=_number(known),
        found=len(transcript.speakers),
        errors=found,
        der=round(found.rate, 4),
    )


def _number(turns: Sequence[Turn]) -> int:
    return len({turn.speaker for turn in turns})


def _total(found: Sequence[RecordingErrors]) -> SpeakerErrors:
    return sum((item.errors for item in found), NO_ERRORS)


def markdown(report: SpeakersReport) -> str:
    columns = ["recording", "s", "speakers", "found"]
    columns += ["DER %", "missed", "false", "confused", "answer s"]
    rows = [
        [
            item.name,
            number(item.audio_s),
            str(item.speakers),
            str(item.found),
            *map(percent, (item.errors.rate, *item.errors.shares)),
            number(item.answer_s),
        ]
        for item in report.recordings
    ]
    audio_s = sum(item.audio_s for item in report.recordings)
    right = sum(item.found == item.speakers for item in report.recordings)
    answer_s = sum(item.answer_s for item in report.recordings)
    total = _total(report.recordings)
    figures = map(percent, (total.rate, *total.shares))
    rows.append(["all", number(audio_s), "", f"{right} right", *figures, number(answer_s)])
    collar = f"a collar of {report.collar_s:g} s" if report.collar_s else "no collar"
    count = f"{len(report.recordings)} recordings"
    return (
        f"`{report.header.command}`\n\n{table(columns, rows)}\n"
        f"DER with {collar}, overlapping speech counts; {origin(report.header, count, audio_s)}\n"
    )
