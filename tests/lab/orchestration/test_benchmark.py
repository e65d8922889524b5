"""From rounds to ratios, tables and pictures; tests of the systems are in integration."""

from pathlib import Path

import numpy as np
import pytest
from reports import header

from conch.bench.load import LoadResult, Offer, Outcome
from conch.bench.memory import Memory
from conch.scoring.manifest import ManifestEntry
from conch.wire.errors import BenchError
from lab.orchestration import plots
from lab.orchestration.benchmark import OrchestrationBenchmark, OrchestrationReport, run, systems
from lab.orchestration.figures import Rounds, SystemFigures, ratios, system_figures
from lab.orchestration.in_process import SystemRun
from lab.orchestration.report import markdown
from lab.orchestration.systems import (
    CONCH,
    CONCH_NO_VAD,
    ENSEMBLE,
    Clip,
    Measured,
    System,
    blocking,
)
from lab.served import ServedStage
from lab.settings import read_settings

UTTERANCES = [ManifestEntry(Path("a"), "the cat sat"), ManifestEntry(Path("b"), "it purred")]
CLIPS = [Clip(Path(name), np.zeros(32_000, np.float32)) for name in "ab"]
CLOSED, PACED = Offer(concurrency=4), Offer(rate=2.0)
STAGES = {"vad": ServedStage(1.0, 2.0, 10.0)}


def measured(system: System, wall_s: float, latency_s: float, memory_mb: float) -> Measured:
    outcomes = (Outcome(0, latency_s, "the cat sat"), Outcome(1, 2 * latency_s, "it barked"))
    cpu_s = {"speech": 0.1 * wall_s, "vad": 0.4 * wall_s, "client": 0.1}
    runs = [
        SystemRun(offered, LoadResult(outcomes, wall_s), cpu_s, STAGES)
        for offered in (CLOSED, PACED)
    ]
    entry = system.models[0] if system.models else system.name
    return Measured(runs, Memory(memory_mb, {entry: memory_mb / 2, "vad": memory_mb / 2}))


def figures_of(name: str, *rounds: tuple[float, float, float]) -> dict[str, SystemFigures]:
    (system,) = [item for item in systems([1, 4]) if item.name == name]
    found = Rounds(system, [measured(system, *item) for item in rounds])
    return {name: system_figures(found, UTTERANCES, CLIPS)}


def report() -> OrchestrationReport:
    found = {
        # The second round's machine is slower, for both.
        **figures_of(CONCH, (1.0, 0.1, 300), (4.0, 0.4, 300), (1.0, 0.1, 302)),
        **figures_of(blocking(1), (2.0, 0.3, 500), (10.0, 1.2, 500), (1.9, 0.3, 502)),
        **figures_of(blocking(4), (1.6, 0.2, 700), (8.0, 0.8, 700), (1.5, 0.2, 702)),
        **figures_of("in process", (0.96, 0.1, 200), (3.84, 0.4, 200), (0.9, 0.1, 200)),
        **figures_of(CONCH_NO_VAD, (1.0, 0.1, 250)),
        **figures_of(ENSEMBLE, (0.95, 0.1, 200)),
    }
    return OrchestrationReport(
        header=header("python -m lab orchestration", runs=3),
        utterances=2,
        audio_s=4.0,
        systems=found,
        ratios=ratios(found, CONCH) | ratios(found, CONCH_NO_VAD),
    )


def test_a_run_has_the_rounds_median_and_the_latencies_of_all() -> None:
    first = figures_of(CONCH, (1.0, 0.1, 300), (4.0, 0.4, 310), (2.0, 0.2, 320))[CONCH]
    closed, paced = first.runs
    assert (closed.title, paced.title) == ("closed loop, 4", "paced, 2/s")
    assert closed.rtfx_rounds == [4.0, 1.0, 2.0]
    assert closed.rtfx == 2.0
    assert closed.accuracy.wer == 0.2
    assert closed.latency_ms.max == 800
    # 3.5 s of CPU for 12 s of audio; the client's 0.1 s a round count apart.
    expected = {"speech": 0.05833, "vad": 0.23333, "client": 0.025, "total": 0.29167}
    assert closed.cpu_s_per_audio_s == expected
    assert closed.orchestration_share == 0.2
    assert closed.calls_per_request == 1
    assert first.peak_memory_mb == 310


def test_a_request_that_failed_is_reported_and_counts_in_nothing_else() -> None:
    (system,) = [item for item in systems([1]) if item.name == CONCH]
    outcomes: tuple[Outcome[str], ...] = (
        Outcome(0, 0.1, "the cat sat"),
        Outcome(1, 9.0, None, "no room"),
    )
    failed = SystemRun(CLOSED, LoadResult(outcomes, 1.0), {}, STAGES)
    rounds = Rounds(system, [Measured([failed], Memory(1.0, {}))])
    (closed,) = system_figures(rounds, UTTERANCES, CLIPS).runs
    assert (closed.errors, closed.error_messages) == (1, ["no room"])
    assert (closed.rtfx, closed.accuracy.wer, closed.latency_ms.max) == (2.0, 0.0, 100.0)


def test_recordings_that_are_sent_again_count_once_in_wer_and_each_time_in_speed() -> None:
    (system,) = [item for item in systems([1]) if item.name == CONCH]
    texts = ("the cat sat", "it purred", "wrong")
    outcomes = tuple(Outcome(index, 0.1, text) for index, text in enumerate(texts))
    again = SystemRun(CLOSED, LoadResult(outcomes, 2.0), {"vad": 3.0}, STAGES)
    rounds = Rounds(system, [Measured([again], Memory(1.0, {}))])
    (closed,) = system_figures(rounds, UTTERANCES, CLIPS).runs
    assert (closed.requests, closed.audio_s, closed.rtfx) == (3, 6.0, 3.0)
    assert closed.accuracy.wer == 0.0
    assert closed.cpu_s_per_audio_s["vad"] == 0.5


def test_ratios_are_medians_of_those_within_a_round() -> None:
    found = report().ratios
    closed = found["conch / blocking x1"].loads[0]
    assert closed.title == "closed loop, 4"
    assert closed.rtfx == 2.0  # of 2.0, 2.5 and 1.9
    assert closed.p50 == pytest.approx(1 / 3, abs=1e-3)
    assert found["conch / blocking x1"].memory == 0.6
    assert found["conch / blocking x1"].orchestrator_memory == 0.6


def test_the_orchestrators_memory_is_the_median_of_the_rounds_too() -> None:
    own = figures_of(CONCH, *((1.0, 0.1, mb) for mb in (900, 300, 310)))
    assert own[CONCH].memory_by_process_mb == {"speech": 155.0, "vad": 155.0}
    other = figures_of(blocking(1), *((1.0, 0.1, mb) for mb in (300, 600, 620)))
    assert ratios({**own, **other}, CONCH)["conch / blocking x1"].orchestrator_memory == 0.5


def test_what_has_no_vad_is_compared_with_what_has_none() -> None:
    pairs = set(report().ratios)
    assert "conch, no VAD / ensemble, no VAD" in pairs
    assert "conch / ensemble, no VAD" not in pairs
    assert "conch, no VAD / in process" not in pairs


def test_every_row_has_the_columns_of_its_table() -> None:
    text = markdown(report())
    for block in text.split("\n\n"):
        if block.startswith("|"):
            assert len({line.count("|") for line in block.splitlines()}) == 1, block
    assert "| conch | closed loop, 4 | 4.0 |" in text
    assert "| conch / blocking x4 | closed loop, 4 | 1.600 |" in text


def test_pictures_are_written(tmp_path: Path) -> None:
    written = plots.write(report().systems, tmp_path)
    assert [path.name for path in written] == [plots.LATENCY, plots.THROUGHPUT, plots.STAGES]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)


def test_a_load_of_which_every_request_failed_is_in_no_picture(tmp_path: Path) -> None:
    (system,) = [item for item in systems([1]) if item.name == CONCH]
    nothing: LoadResult[str] = LoadResult((Outcome(0, 9.0, None, "no room"),), 1.0)
    runs = [SystemRun(offered, nothing, {}, STAGES) for offered in (CLOSED, PACED)]
    found = system_figures(Rounds(system, [Measured(runs, Memory(1.0, {}))]), UTTERANCES, CLIPS)
    written = plots.write({CONCH: found}, tmp_path)
    assert [path.name for path in written] == [plots.THROUGHPUT, plots.STAGES]


def test_an_unknown_system_is_refused_before_anything_starts(tmp_path: Path) -> None:
    asked = OrchestrationBenchmark(manifest=tmp_path / "none.tsv", only=("concch",))
    with pytest.raises(BenchError, match="no system concch; the systems are conch; in process;"):
        run(asked)


def test_a_system_that_takes_no_load_is_not_compared(tmp_path: Path) -> None:
    asked = OrchestrationBenchmark(
        manifest=tmp_path / "none.tsv", only=("ensemble, no VAD",), concurrency=(), rates=(2, 4)
    )
    with pytest.raises(BenchError, match="no system takes one of the loads paced, 2/s, paced"):
        run(asked)


def test_a_setting_that_cannot_be_made_is_refused_before_anything_starts(tmp_path: Path) -> None:
    varied = read_settings("attention_decoder.intra_thread=1")
    asked = OrchestrationBenchmark(manifest=tmp_path / "none.tsv", varied=(varied,))
    with pytest.raises(BenchError, match=r"cannot set attention_decoder\.intra_thread=1"):
        run(asked)


def test_settings_make_a_system_that_conch_is_compared_with() -> None:
    varied = read_settings("vad.instances=2,attention_decoder.max_batch_size=4")
    ours, other = systems([], [varied])[:2]
    assert other.name == "conch, vad.instances=2, attention_decoder.max_batch_size=4"
    figures = {
        system.name: system_figures(
            Rounds(system, [measured(system, wall_s, 0.1, 300)]), UTTERANCES, CLIPS
        )
        for system, wall_s in ((ours, 1.0), (other, 2.0))
    }
    found = ratios(figures, CONCH)
    assert list(found) == [f"{CONCH} / {other.name}"]
    assert found[f"{CONCH} / {other.name}"].loads[0].rtfx == 2.0
