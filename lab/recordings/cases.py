"""`conch bench recordings`: long recordings of several kinds, in one table.

The report is one JSON object: `cases`, a list in the order of the table with

    name, title             of the case
    joining, source         how its recordings are made, and of which utterances; null is all
    minutes                 of audio
    conch                   figures of a run of `conch bench offline` at concurrency 1
    baseline                the same as far as they apply, and `cached`: recordings whose text and
                            time are from `--baseline-cache`; null without a baseline
    versus                  of conch and the baseline, as in an offline report
    took_s                  conch and the baseline together, warming up included

`left_out`, a list of {name, reason} of cases for which there is too little speech, and the header
that an offline report has.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from conch.bench import baseline, require
from conch.bench.baseline_cache import BaselineCache
from conch.bench.figures import accuracy, deleted_runs, versus
from conch.bench.joined import Joining, TooLittleSpeechError
from conch.bench.joined_files import write_recordings
from conch.bench.load import Offer
from conch.bench.manifest import Utterance, read_manifest, select
from conch.bench.measures import rtfx
from conch.bench.offline import header, load_samples, measure, own_or_running
from conch.bench.progress import progress
from conch.bench.report import MOST_RUNS, number, origin, percent, table
from conch.bench.served import model_parameters, triton_version
from conch.wire.errors import BenchError
from conch.wire.options import RecognitionOptions

SOURCES = "sources"
"""Stands for one case for each source of the manifest."""
SOURCE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of recordings."""

    name: str
    title: str
    joining: Joining
    source: str | None = None
    """Of the utterances; None takes all."""


CASES = (
    Case("1min", "1 minute", Joining(seconds=60)),
    Case("5min", "5 minutes", Joining(seconds=300)),
    Case("20min", "20 minutes", Joining(seconds=1200)),
    Case("60min", "60 minutes", Joining(seconds=3600)),
    Case("short-pauses", "pauses of 0.1 to 0.4 s", Joining(seconds=300, pause_s=(0.1, 0.4))),
    Case("long-pauses", "pauses of 1 to 3 s", Joining(seconds=300, pause_s=(1, 3))),
    Case("telephone", "telephone, noise at 15 dB", Joining(seconds=300, is_telephone=True)),
    Case("noise", "noise in the pauses", Joining(seconds=300, pause_s=(1, 3), between="noise")),
    Case("music", "music in the pauses", Joining(seconds=300, pause_s=(1, 3), between="music")),
)
"""Five minutes and pauses of 0.2 to 0.9 s where a title says nothing else."""
CASE_NAMES = (*(case.name for case in CASES), SOURCES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingsBenchmark:
    """What is measured, and how; fields as in `OfflineBenchmark`."""

    manifest: Path
    split: str | None = None
    source: str | None = None
    cases: Sequence[str] = CASE_NAMES
    """Names out of `CASE_NAMES`."""
    minutes: float | None = None
    """Of audio of a case, at most, but one recording at least; None takes all there is."""
    url: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    warmup: int = 4
    baseline: Literal["faster-whisper"] | None = None
    baseline_cache: Path | None = None


def run(benchmark: RecordingsBenchmark) -> dict[str, Any]:
    """Measure and return the report.

    One server answers all cases, one recording at a time. The baseline hears the same files once
    the server, if it is the benchmark's own, has stopped.

    Raises:
        BenchError: the manifest, an audio file or a package is missing, no case has enough speech,
            or the baseline's cache is none.
        ServerError: no server answers, or it cannot be started.
    """
    require("jiwer", "whisper_normalizer")
    if benchmark.baseline:
        require("faster_whisper")
    cache = BaselineCache(benchmark.baseline_cache)
    utterances = select(
        read_manifest(benchmark.manifest), split=benchmark.split, source=benchmark.source
    )
    warmup = list(islice(cycle(utterances), benchmark.warmup))
    report = {
        **header("recordings", benchmark),
        "options": asdict(RecognitionOptions.parse(benchmark.options)),
    }
    with TemporaryDirectory(prefix="conch-recordings-") as folder:
        made, left_out = _made(benchmark, utterances, Path(folder))
        with own_or_running(benchmark.url) as (url, memory):
            report["versions"]["triton"] = triton_version(url)
            served = model_parameters(url, "attention_encoder") if benchmark.baseline else {}
            first = load_samples(warmup, "waveform")
            rows = []
            for case, recordings in made:
                started = time.monotonic()
                samples = load_samples(recordings, "waveform")
                durations_s = [sample.duration_s for sample in samples]
                _say(f"{case.title}: recordings: {len(samples)}, {sum(durations_s) / 60:.1f} min")
                one = Offer(concurrency=1)
                figures = measure(url, samples, first, one, benchmark.options, memory)
                # Minutes of samples are not held while the next case is measured.
                del samples
                took_s = time.monotonic() - started
                _say(f"{case.title}: conch took {took_s:.0f} s")
                rows.append(_row(case, figures, durations_s, took_s))
        if benchmark.baseline:
            rows = [
                _compared(row, recordings, served, warmup, cache)
                for row, (_, recordings) in zip(rows, made, strict=True)
            ]
    return {**report, "cases": rows, "left_out": left_out}


def chosen_cases(names: Sequence[str], sources: Sequence[str]) -> list[Case]:
    """Return the cases of some names, in the order of the table, one for each source last."""
    named = [case for case in CASES if case.name in names]
    of_sources = [
        Case(f"source:{source}", source, Joining(seconds=SOURCE_SECONDS), source)
        for source in sources
    ]
    return [*named, *(of_sources if SOURCES in names else [])]


def _made(
    benchmark: RecordingsBenchmark, utterances: Sequence[Utterance], folder: Path
) -> tuple[list[tuple[Case, list[Utterance]]], list[dict[str, str]]]:
    """Write the recordings of every case; return them, and the cases that lack speech."""
    made: list[tuple[Case, list[Utterance]]] = []
    left_out: list[dict[str, str]] = []
    sources = list(dict.fromkeys(item.source for item in utterances if item.source))
    for place, case in enumerate(chosen_cases(benchmark.cases, sources)):
        own_folder = folder / str(place)
        own_folder.mkdir()
        try:
            kept = select(utterances, source=case.source)
            limit = _limit(case.joining.seconds, benchmark.minutes)
            made.append((case, write_recordings(kept, case.joining, own_folder, limit)))
        except TooLittleSpeechError as error:
            _say(f"{case.title} is left out: {error}")
            left_out.append({"name": case.name, "reason": str(error)})
    if not made:
        reasons = "; ".join(item["reason"] for item in left_out)
        raise BenchError(f"no case can be measured: {reasons or 'the manifest names no source'}")
    return made, left_out


def _limit(seconds: float, minutes: float | None) -> int | None:
    return None if minutes is None else max(1, int(60 * minutes / seconds))


def _row(
    case: Case, figures: Mapping[str, Any], durations_s: Sequence[float], took_s: float
) -> dict[str, Any]:
    return {
        "name": case.name,
        "title": case.title,
        "joining": asdict(case.joining),
        "source": case.source,
        "minutes": round(sum(durations_s) / 60, 2),
        "conch": figures,
        "baseline": None,
        "versus": None,
        "took_s": round(took_s, 1),
    }


def _compared(
    row: Mapping[str, Any],
    recordings: Sequence[Utterance],
    served: Mapping[str, str],
    warmup: Sequence[Utterance],
    cache: BaselineCache,
) -> dict[str, Any]:
    """Return the row with the baseline's figures of the same recordings."""
    started = time.monotonic()
    job = baseline.faster_whisper_job(
        [recording.path for recording in recordings],
        served,
        warmup_paths=[utterance.path for utterance in warmup],
    )
    with progress(f"{baseline.NAME}: {row['title']}", len(recordings)) as bar:
        found = cache.hear(job, on_answer=bar.update)
    spoken = [
        (recording, heard.text) for recording, heard in zip(recordings, found.heard, strict=True)
    ]
    wall_s = sum(heard.latency_s for heard in found.heard)
    took_s = time.monotonic() - started
    _say(f"{row['title']}: {baseline.NAME} took {took_s:.0f} s")
    figures = {
        "rtfx": rtfx(sum(recording.parts[-1].end_s for recording in recordings), wall_s),
        **accuracy(spoken),
        "deleted_runs": deleted_runs(spoken),
        "wall_s": round(wall_s, 3),
        "utterances": len(recordings),
        "cached": found.cached,
        "options": job.options,
    }
    return {
        **row,
        "baseline": figures,
        "versus": versus(row["conch"], figures),
        "took_s": round(row["took_s"] + took_s, 1),
    }


def markdown(report: Mapping[str, Any]) -> str:
    """Return the table of the cases, the deleted runs, and a line on where they come from."""
    cases = report["cases"]
    total = {
        "utterances": sum(case["conch"]["utterances"] for case in cases),
        "audio_s": 60 * sum(case["minutes"] for case in cases),
    }
    parts = [
        f"`{report['command']}`",
        _table(cases),
        _notes(report),
        _errors(cases),
        _runs(cases),
    ]
    parts.append(origin(report, total))
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(cases: Sequence[Mapping[str, Any]]) -> str:
    """Return what matters most, a row for each case."""
    is_compared = _is_compared(cases)
    compared = ["RTFx / fw", "only conch"] if is_compared else []
    paired = _beside(("WER %", "del %", "runs", "RTFx"), is_compared)
    header = ["case", "recordings", "min", *paired, *compared, "took min"]
    rows = [
        [
            case["title"],
            str(case["conch"]["utterances"]),
            number(case["minutes"], 0),
            *_paired(case, _figures),
            *_versus(case),
            number(case["took_s"] / 60),
        ]
        for case in cases
    ]
    return table(header, rows)


def _errors(cases: Sequence[Mapping[str, Any]]) -> str:
    """Return the counts of word errors, a row for each case."""
    header = ["word errors", *_beside(("words", "sub", "del", "ins"), _is_compared(cases))]
    return table(header, [[case["title"], *_paired(case, _counts)] for case in cases])


def _is_compared(cases: Sequence[Mapping[str, Any]]) -> bool:
    return any(case["baseline"] for case in cases)


def _beside(titles: Sequence[str], is_compared: bool) -> list[str]:
    """Return columns of conch and, beside each, one of the baseline."""
    return [name for title in titles for name in ((title, "fw") if is_compared else (title,))]


def _paired(
    case: Mapping[str, Any], cells: Callable[[Mapping[str, Any]], Sequence[str]]
) -> list[str]:
    systems = [case["conch"], *([case["baseline"]] if case["baseline"] else [])]
    return [cell for pair in zip(*map(cells, systems), strict=True) for cell in pair]


def _figures(figures: Mapping[str, Any]) -> list[str]:
    words = figures["reference_words"]
    return [
        percent(figures["wer"]),
        percent(figures["deletions"] / words if words else None),
        str(len(figures["deleted_runs"])),
        number(figures["rtfx"]) + ("*" if figures.get("cached") else ""),
    ]


def _counts(figures: Mapping[str, Any]) -> list[str]:
    names = ("reference_words", "substitutions", "deletions", "insertions")
    return [str(figures[name]) for name in names]


def _versus(case: Mapping[str, Any]) -> list[str]:
    found = case["versus"]
    if not found:
        return []
    return [number(found["rtfx_ratio"], 2), str(len(found["deleted_runs_alone"]))]


def _notes(report: Mapping[str, Any]) -> str:
    cases = report["cases"]
    notes = ["runs: of three and more words in a row that are missing in the text."]
    if any(case["baseline"] for case in cases):
        notes.append(
            f"fw: {baseline.NAME} on the same recordings. only conch: runs of which "
            f"{baseline.NAME} has lost no word."
        )
    if any(case["baseline"] and case["baseline"]["cached"] for case in cases):
        notes.append(f"*: of an earlier run of {baseline.NAME}, from its cache.")
    errors = sum(case["conch"]["errors"] for case in cases)
    if errors:
        notes.append(f"**{errors} recordings were answered with an error and count nowhere.**")
    notes += [f"{item['name']} is left out: {item['reason']}." for item in report["left_out"]]
    return " ".join(notes)


def _runs(cases: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of what conch has lost."""
    lost = [(case, run) for case in cases for run in case["conch"]["deleted_runs"]]
    rows = [
        [
            case["title"],
            Path(run["path"]).stem,
            number(run["start"]),
            number(run["end"]),
            run["words"],
            *([_also_lost(case, run)] if case["versus"] else []),
        ]
        for case, run in lost[:MOST_RUNS]
    ]
    header = ["deleted in", "recording", "from s", "to s", "words"]
    if any(case["versus"] for case in cases):
        header.append(f"by {baseline.NAME} too")
    more = f"\n\n{len(lost) - MOST_RUNS} more are in the JSON report." if lost[MOST_RUNS:] else ""
    return table(header, rows) + more if rows else ""


def _also_lost(case: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    return "no" if run in case["versus"]["deleted_runs_alone"] else "yes"


def _say(message: str) -> None:
    print(message, file=sys.stderr)
