from collections.abc import Sequence

from reports import DELETED, LATENCY, accuracy, header, offline_run

from conch.bench.offline import OfflineRun
from conch.wire.options import RecognitionOptions
from lab.alignment import DeletedWords
from lab.baselines.faster_whisper import Options
from lab.figures import BaselineFigures, JudgedRun, Versus
from lab.offline.benchmark import OfflineComparison
from lab.offline.report import markdown
from lab.recordings.joined import Joining

BASELINE = BaselineFigures(
    rtfx=22.2,
    accuracy=accuracy(0.0533, {"read": 0.041, "talk": 0.081}),
    deleted_runs=[],
    latency_ms=LATENCY,
    audio_s=60.0,
    wall_s=3.0,
    utterances=10,
    cpu_s_per_audio_s=0.1,
    peak_memory_mb=400.0,
    options=Options(model="", compute_type="int8", cpu_threads=2),
)


def compared(run: OfflineRun, deleted: Sequence[DeletedWords] = ()) -> JudgedRun:
    versus = Versus(rtfx_ratio=0.9, wer_difference=-0.0012)
    return JudgedRun(run=run, deleted_runs=deleted, versus={"faster-whisper": versus})


def text_of(*runs: JudgedRun, joining: Joining | None = None) -> str:
    return markdown(
        OfflineComparison(
            header=header(),
            options=RecognitionOptions(),
            joining=joining,
            recordings=[],
            first=runs[0],
            runs=runs,
            baselines={"faster-whisper": BASELINE},
        )
    )


def test_runs_and_baselines_share_a_table() -> None:
    lines = text_of(compared(offline_run(1)), compared(offline_run(8))).splitlines()
    assert (
        "| conch | closed loop, 1 | 20.0 | 5.21 | 100 | 200 | 300 | 400 | 812 | 0.90 | -0.12 |"
        in lines
    )
    assert any(line.startswith("| conch | closed loop, 8 | 160.0 |") for line in lines)
    assert any(
        line.startswith("| faster-whisper | closed loop, 1 | 22.2 | 5.33 |") for line in lines
    )


def test_every_table_is_rectangular() -> None:
    blocks = text_of(compared(offline_run(1), [DELETED])).split("\n\n")
    tables = [block.splitlines() for block in blocks if block.startswith("|")]
    assert len(tables) == 3
    for lines in tables:
        assert len({line.count("|") for line in lines}) == 1


def test_word_errors_and_deleted_runs_have_tables() -> None:
    lines = text_of(compared(offline_run(1), [DELETED])).splitlines()
    ours, theirs = (f"200 | 6 | 3 | 1 | {wer} | 3.00 | 1.50 | 0.50" for wer in ("5.21", "5.33"))
    assert f"| conch | closed loop, 1 | {ours} | 1 |" in lines
    assert f"| faster-whisper | closed loop, 1 | {theirs} | 0 |" in lines
    assert "| recording-0003.flac | conch | 61.0 | 62.5 | 4 | he was not there |" in lines


def test_deleted_runs_beyond_a_screenful_are_counted() -> None:
    lines = text_of(compared(offline_run(1), [DELETED] * 43)).splitlines()
    assert sum("he was not there" in line for line in lines) == 40
    assert "3 more of conch are in the JSON report." in lines


def test_joined_recordings_are_distinguished_from_utterances() -> None:
    found = text_of(compared(offline_run(1)), joining=Joining(seconds=600.0, between="music"))
    assert (
        "10 recordings joined to 600 s, pauses of 0.2 to 0.9 s with music (seed 1), 60 s" in found
    )
