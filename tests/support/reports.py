"""Records of reports, filled with figures that a test can recognise."""

from collections.abc import Mapping, Sequence
from typing import Any

from conch.bench.figures import ErrorMessage, Latency, MeanStage, RunFigures
from conch.bench.header import Header, Machine
from conch.bench.offline import OfflineRun
from conch.scoring.error_rates import Accuracy
from lab.alignment import DeletedWords

LATENCY = Latency(p50=100.4, p90=200.0, p95=300.0, p99=400.0, mean=1.0, max=2.0)

DELETED = DeletedWords(
    path="/recordings/recording-0003.flac",
    start=61.04,
    end=62.5,
    words="he was not there",
    first_word=120,
    end_word=124,
)


def header(command: str = "conch bench", **settings: Any) -> Header:
    return Header(
        benchmark="offline",
        started_at="2025-01-01T00:00:00+00:00",
        command=command,
        machine=Machine(cpu="A CPU", cores=2, memory_gb=8.0, system="Linux", load_average=0.1),
        versions={"triton": "2.51.0", "python": "3.11.2"},
        settings=settings,
    )


def accuracy(
    wer: float | None = 0.0521,
    by_source: Mapping[str, float | None] | None = None,
    words: int = 200,
    insertions: int = 1,
) -> Accuracy:
    return Accuracy(
        wer=wer,
        wer_by_source={"read": 0.04, "talk": 0.08} if by_source is None else by_source,
        reference_words=words,
        substitutions=6,
        deletions=3,
        insertions=insertions,
    )


def run_figures(
    rtfx: float | None = 20.0,
    found: Accuracy | None = None,
    latency: Latency = LATENCY,
    utterances: int = 10,
    errors: Sequence[str] = (),
    stages: Mapping[str, MeanStage] | None = None,
) -> RunFigures:
    return RunFigures(
        rtfx=rtfx,
        accuracy=found or accuracy(),
        latency_ms=latency,
        audio_s=60.0,
        wall_s=3.0,
        utterances=utterances,
        errors=len(errors),
        error_messages=[ErrorMessage("a.wav", message) for message in errors],
        stages={"vad": MeanStage(1.0, 5.0)} if stages is None else stages,
    )


def offline_run(
    concurrency: int | None = 1,
    rate: float | None = None,
    memory_mb: float | None = 812.5,
    figures: RunFigures | None = None,
) -> OfflineRun:
    return OfflineRun(
        load="closed loop" if rate is None else "paced",
        concurrency=concurrency,
        rate=rate,
        figures=figures or run_figures(20.0 * (concurrency or 1)),
        peak_memory_mb=memory_mb,
        memory_by_process_mb=None if memory_mb is None else {"speech": 44.0},
    )
