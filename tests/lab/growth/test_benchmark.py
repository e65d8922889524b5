"""The growing loads and their figures; tests with a server are in integration."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from reports import accuracy, header, run_figures

from conch.bench.figures import Latency, LiveRun, MeanStage
from conch.component import SAMPLE_RATE
from lab.growth.benchmark import (
    ROW_AUDIO_S,
    Cost,
    GrowthReport,
    RecordingsRow,
    StreamsRow,
    Taken,
    clips,
    costs,
    joined,
    repeats,
)
from lab.growth.report import markdown, plot

USED_S = {"attention_encoder": 3.0, "attention_decoder": 6.0, "speech": 0.4, "tritonserver": 0.6}
LATENCY = Latency(p50=10.0, p90=11.0, p95=12.0, p99=13.0, mean=10.0, max=14.0)
STAGES = {"vad": MeanStage(2.0, 1.0), "total": MeanStage(1.0, 9.0)}
FIGURES = run_figures(20.0, accuracy(0.05), LATENCY, utterances=4, stages=STAGES)


def taken(audio_s: float = 200.0) -> Taken:
    return Taken(
        cost=costs(USED_S, audio_s), peak_memory_mb=470.0, memory_by_process_mb={"speech": 44.0}
    )


def live(streams: int) -> LiveRun:
    return LiveRun(
        streams=streams,
        keeps_up=True,
        wer=0.05,
        chunk_latency_ms=LATENCY,
        first_partial_ms=LATENCY,
        final_ms=LATENCY,
        end_ms=LATENCY,
        cpu_ms_per_chunk=60.0,
        cpu_s_per_audio_s=0.1,
        peak_memory_mb=470.0,
        chunks=7,
        audio_s=200.0,
        errors=0,
        error_messages=[],
    )


def report(
    lengths: Sequence[RecordingsRow] = (),
    concurrency: Sequence[RecordingsRow] = (),
    streams: Sequence[StreamsRow] = (),
) -> GrowthReport:
    return GrowthReport(
        header=header("python -m lab growth"),
        lengths=lengths,
        concurrency=concurrency,
        streams=streams,
    )


def test_recordings_are_joined_with_pauses() -> None:
    one, two = np.ones(10, np.float32), np.full(20, 2, np.float32)
    audio = joined([one, two])
    assert len(audio) == 30 + 2 * SAMPLE_RATE // 2
    assert audio.dtype == np.float32
    assert (audio[:10] == 1).all()
    assert not audio[10 : 10 + SAMPLE_RATE // 2].any()
    assert (audio[10 + SAMPLE_RATE // 2 :][:20] == 2).all()


def test_clips_follow_each_other_and_begin_again_at_the_end() -> None:
    audio = np.arange(5 * SAMPLE_RATE // 2, dtype=np.float32)  # 2.5 s
    cut = clips(audio, 1, 4)
    endless = np.tile(audio, 2)
    for index, clip in enumerate(cut):
        expected = endless[index * SAMPLE_RATE : (index + 1) * SAMPLE_RATE]
        np.testing.assert_array_equal(clip.audio, expected)
        assert (clip.duration_s, clip.sample_rate, clip.utterance.text) == (1.0, SAMPLE_RATE, "")


def test_a_clip_may_be_longer_than_what_it_is_made_of() -> None:
    audio = np.arange(5 * SAMPLE_RATE // 2, dtype=np.float32)
    (clip,) = clips(audio, 7, 1)
    np.testing.assert_array_equal(clip.audio, np.tile(audio, 3)[: 7 * SAMPLE_RATE])


@pytest.mark.parametrize("length_s", [1, 3, 5, 30, 100, 3600])
def test_a_row_has_enough_audio_and_no_more_than_it_needs(length_s: int) -> None:
    count = repeats(length_s)
    assert count * length_s >= ROW_AUDIO_S
    assert (count - 1) * length_s < ROW_AUDIO_S


def test_costs_are_by_process_and_what_is_no_component_counts_on_its_own() -> None:
    found = costs(USED_S, 200.0)
    assert found.cpu_s_per_audio_s == {
        "attention_encoder": 0.015,
        "attention_decoder": 0.03,
        "speech": 0.002,
        "tritonserver": 0.003,
        "total": 0.05,
    }
    assert found.orchestration_cpu_s_per_audio_s == 0.005
    assert found.orchestration_share == 0.1


def test_nothing_answered_has_no_cost() -> None:
    assert costs(USED_S, 0.0) == Cost()


def test_a_report_has_a_table_for_each_part_that_was_measured(tmp_path: Path) -> None:
    many = run_figures(20.0, accuracy(0.05), LATENCY, utterances=4, errors=["too many"])
    found = report(
        lengths=[
            RecordingsRow(length_s=length, concurrency=1, figures=FIGURES, taken=taken())
            for length in (1, 3600)
        ],
        concurrency=[RecordingsRow(length_s=5, concurrency=256, figures=many, taken=taken())],
        streams=[StreamsRow(figures=live(8), taken=taken())],
    )
    text = markdown(found)
    assert "| 1 | 3600 | 4 | 0 | 2.0 | 0.0500 | 0.00500 | 10.00 | 20.0 | 10 | 13 | 44 |" in text
    assert "| 256 | 5 | 4 | 1 | 1.0 | 0.0500 |" in text
    assert "**too many**" in text
    assert "| 8 | yes | 7 | 60.0 | 0.0500 |" in text
    assert text.count("| --- |") == 2
    assert markdown(report(streams=found.streams)).count("| --- |") == 1
    picture = tmp_path / "growth.png"
    plot(found, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_row_without_an_answer_has_dashes_and_no_point_in_the_picture(tmp_path: Path) -> None:
    gone = run_figures(None, accuracy(0.05), Latency(), utterances=4, errors=["gone"] * 4)
    row = RecordingsRow(length_s=5, concurrency=1, figures=gone, taken=taken(audio_s=0.0))
    found = report(concurrency=[row])
    assert "| 1 | 5 | 4 | 4 | 1.0 | - | - | - | - | - | - |" in markdown(found)
    plot(found, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").is_file()
