"""The comparison of Whisper models: its turns and its table, without a server."""

from pathlib import Path

import pytest

from conch.bench.measures import Scoring
from lab import whispers
from lab.whispers import Figures, markdown


def test_each_turn_sends_to_every_model_and_begins_with_another_one() -> None:
    turns = [list(whispers._in_turns(3, turn)) for turn in range(4)]
    assert turns == [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]


def test_times_stand_beside_those_of_the_first_model() -> None:
    first = Figures(
        model="tiny.en", wall_s=8, cpu_s=10, memory_mb=459.4, texts=["a", "b"], error_rate=0.0776
    )
    other = Figures(model="base", wall_s=16.4, cpu_s=20.9, memory_mb=742, texts=["a", "b"])
    assert markdown([first, other], 100, Scoring.of("auto", "zh")).splitlines() == [
        "| model | CER % | time | CPU | CPU s per s of audio | memory MB |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        "| tiny.en | 7.76 | 1.00 | 1.00 | 0.1000 | 459 |",
        "| base | - | 2.05 | 2.09 | 0.2090 | 742 |",
        "",
        "2 recordings, 100 s of audio; CER, Whisper's basic normaliser, in simplified characters",
    ]


@pytest.mark.parametrize("missing", ["--manifest", "--model"])
def test_a_manifest_and_a_model_are_required(
    missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"--manifest": "speech.tsv", "--model": "base"}
    del given[missing]
    with pytest.raises(SystemExit) as refused:
        whispers.main([part for pair in given.items() for part in pair])
    assert refused.value.code == 2
    assert missing in capsys.readouterr().err


def test_a_manifest_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "speech.tsv"
    assert whispers.main(["--manifest", str(path), "--model", "base"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("whispers: ") and str(path) in error
