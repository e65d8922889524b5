"""Speaker labels of recordings whose turns are known: errors, and the number of speakers.

The diarization error rate is the share of speaker time that is missed, false or given to somebody
else (NIST, Rich Transcription 2009), under the one-to-one naming of speakers with the fewest
errors. Overlapping speech counts.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.bench.header import Flat, Header, header, origin
from conch.bench.load import closed_loop, progress
from conch.bench.servers import server_of, triton_version
from conch.client import AsyncClient
from conch.scoring.error_rates import number, percent, table
from conch.wire.errors import BenchError
from conch.wire.result import Transcript, Turn


@dataclass(frozen=True, slots=True)
class SpeakerErrors:
    """Speaker time in seconds, as of the NIST scorer."""

    spoken_s: float
    missed_s: float
    false_s: float
    confused_s: float

    @property
    def rate(self) -> float:
        return (self.missed_s + self.false_s + self.confused_s) / max(self.spoken_s, 1e-9)

    @property
    def shares(self) -> tuple[float, float, float]:
        """Missed, false and confused time, each a fraction of the speech."""
        parts = (self.missed_s, self.false_s, self.confused_s)
        missed, false, confused = (part / max(self.spoken_s, 1e-9) for part in parts)
        return missed, false, confused

    def __add__(self, other: "SpeakerErrors") -> "SpeakerErrors":
        return SpeakerErrors(*map(add, astuple(self), astuple(other)))


NO_ERRORS = SpeakerErrors(0.0, 0.0, 0.0, 0.0)


def errors(
    reference: Sequence[Turn], hypothesis: Sequence[Turn], collar_s: float = 0.0
) -> SpeakerErrors:
    """Return how far turns are from the reference; `collar_s` beside its edges do not count."""
    bounds = [edge for turn in reference for edge in (turn.start, turn.end)] if collar_s else []
    around = [edge + side for edge in bounds for side in (-collar_s, collar_s)]
    edges = edges_of((*reference, *hypothesis), around)
    if len(edges) < 2:
        return NO_ERRORS
    lengths = np.diff(edges)
    middles = edges[:-1] + lengths / 2
    for edge in bounds:
        lengths[np.abs(middles - edge) < collar_s] = 0
    spoken, labelled = activity(reference, edges), activity(hypothesis, edges)
    right_s = sum(shared_s for _, _, shared_s in matched(spoken, labelled, lengths))
    num_spoken, num_labelled = spoken.sum(axis=0), labelled.sum(axis=0)
    both_s = float(np.minimum(num_spoken, num_labelled) @ lengths)
    return SpeakerErrors(
        spoken_s=float(num_spoken @ lengths),
        missed_s=float(np.maximum(num_spoken - num_labelled, 0) @ lengths),
        false_s=float(np.maximum(num_labelled - num_spoken, 0) @ lengths),
        confused_s=both_s - right_s,
    )


def read_rttm(text: str, name: str) -> dict[str, list[Turn]]:
    """Return the turns of each recording in a text of NIST's format RTTM."""
    turns: dict[str, list[Turn]] = {}
    for row, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if not fields or fields[0] != "SPEAKER":
            continue
        try:
            recording, start, length, speaker = (fields[column] for column in (1, 3, 4, 7))
            turn = Turn(speaker, float(start), float(start) + float(length))
        except (IndexError, ValueError):
            form = "SPEAKER file 1 start length <NA> <NA> speaker"
            raise BenchError(f"{name}, line {row} takes {form}; it has: {line[:100]}") from None
        turns.setdefault(recording, []).append(turn)
    return turns


def edges_of(turns: Sequence[Turn], more: Sequence[float] = ()) -> NDArray[np.float64]:
    """Return when anybody begins or ends, and more times, in order."""
    return np.unique([*more, *(edge for turn in turns for edge in (turn.start, turn.end))])


def matched(
    spoken: NDArray[np.bool_], labelled: NDArray[np.bool_], lengths: NDArray[np.float64]
) -> list[tuple[int, int, float]]:
    """Return the pairs of speakers, of reference and hypothesis, that share the most seconds."""
    # Imported here: of the benchmarks, this one alone needs it.
    from scipy.optimize import linear_sum_assignment

    shared = (spoken * lengths) @ labelled.T.astype(float)
    rows, columns = linear_sum_assignment(-shared)
    return [
        (int(row), int(column), float(shared[row, column]))
        for row, column in zip(rows, columns, strict=True)
    ]


def activity(turns: Sequence[Turn], edges: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return who speaks between which edges, [speakers, edges - 1]."""
    names = sorted({turn.speaker for turn in turns})
    active = np.zeros((len(names), len(edges) - 1), bool)
    for turn in turns:
        first, behind = np.searchsorted(edges, (turn.start, turn.end))
        active[names.index(turn.speaker), first:behind] = True
    return active


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakersBenchmark:
    files: Sequence[Path]
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
    recordings: Sequence[RecordingErrors]


def run(benchmark: SpeakersBenchmark) -> SpeakersReport:
    known = [turns_of(file, benchmark.rttm) for file in benchmark.files]
    begun = header("speakers", benchmark)
    with server_of(benchmark.url, benchmark.weights) as (url, _):
        version = triton_version(url, benchmark.headers)
        answers = asyncio.run(_answers(url, benchmark, known))
    recordings = []
    for file, turns, (answer, answer_s) in zip(benchmark.files, known, answers, strict=True):
        speaker_errors = errors(turns, answer.turns, benchmark.collar_s)
        recordings.append(
            RecordingErrors(
                name=file.name,
                audio_s=answer.duration,
                answer_s=round(answer_s, 3),
                speakers=_number(turns),
                found=len(answer.speakers),
                errors=speaker_errors,
                der=round(speaker_errors.rate, 4),
            )
        )
    return SpeakersReport(
        header=begun.with_triton(version),
        collar_s=benchmark.collar_s,
        der=round(_total(recordings).rate, 4),
        recordings=recordings,
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
    async with AsyncClient(url, headers=benchmark.headers) as client:
        with progress("recordings", len(known)) as bar:

            async def send(index: int) -> Transcript:
                speakers = _number(known[index]) if benchmark.is_number_given else "auto"
                options = {"speakers": speakers, **benchmark.options}
                transcript = await client.transcribe(benchmark.files[index], **options)
                bar.update()
                return transcript

            load = await closed_loop(send, len(known), 1)
    for outcome in load.outcomes:
        if outcome.error:
            raise BenchError(f"{benchmark.files[outcome.index]}: {outcome.error}")
    return [(item.answer, item.latency_s) for item in load.outcomes if item.answer is not None]


def _number(turns: Sequence[Turn]) -> int:
    return len({turn.speaker for turn in turns})


def _total(recordings: Sequence[RecordingErrors]) -> SpeakerErrors:
    return sum((item.errors for item in recordings), NO_ERRORS)


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
