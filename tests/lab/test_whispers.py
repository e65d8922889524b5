"""The comparison of Whisper models: its turns and its table, without a server."""

from pathlib import Path

import pytest

from conch.bench.figures import run_figures
from conch.bench.load import Load, Outcome
from conch.bench.samples import Sample
from conch.scoring.manifest import Utterance
from conch.wire.result import Hypothesis, Transcript
from lab import whispers
from lab.whispers import Figures, accuracy_of, markdown


def test_each_turn_sends_to_every_model_and_begins_with_another_one() -> None:
    turns = [list(whispers._in_turns(3, turn)) for turn in range(4)]
    assert turns == [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]


def test_times_stand_beside_those_of_the_first_model() -> None:
    first = Figures(model="tiny.en", wall_s=8, cpu_s=10, memory_mb=459.4, texts=["a", "b"])
    other = Figures(model="base", wall_s=16.4, cpu_s=20.9, memory_mb=742, texts=["a", "b"])
    assert markdown([first, other], 100).splitlines() == [
        "| model | time | CPU | CPU s per s of audio | memory MB |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| tiny.en | 1.00 | 1.00 | 0.1000 | 459 |",
        "| base | 2.05 | 2.09 | 0.2090 | 742 |",
        "",
        "2 recordings, 100 s of audio",
    ]


UTTERANCES = [
    Utterance(Path("a.wav"), "皇后的头发后来变白", source="read", language="zh-CN"),
    Utterance(Path("b.wav"), "the cat sat down", source="talk"),
]
TEXTS = ["皇后的頭髮", "the cat sat"]


@pytest.mark.parametrize(
    ("metric", "language", "wer", "cer"),
    [
        ("auto", "", 1 / 4, 4 / 9),
        # The manifest counts before the requests; where it says nothing, they do.
        ("auto", "en", 1 / 4, 4 / 9),
        ("auto", "ja", None, 8 / 22),
        ("wer", "", 2 / 5, None),
    ],
)
def test_each_text_is_compared_in_the_language_of_its_recording(metric, language, wer, cer) -> None:
    options = {"language": language} if language else {}
    found = accuracy_of(UTTERANCES, TEXTS, metric, options)
    assert found.wer == (None if wer is None else pytest.approx(wer))
    assert found.cer == (None if cer is None else pytest.approx(cer, abs=1e-6))
    answers = [Transcript((Hypothesis(text, -1, -1),), (), 3.0, (), {}) for text in TEXTS]
    samples = [Sample(utterance, b"", 16_000, 3.0) for utterance in UTTERANCES]
    load = Load(
        tuple(Outcome(*item) for item in zip((0, 1), (0.1, 0.1), answers, strict=True)), wall_s=1.0
    )
    assert found == run_figures(samples, load, metric, options).accuracy


def test_words_and_characters_have_a_column_each() -> None:
    found = Figures(model="base", wall_s=8, cpu_s=10, memory_mb=742, texts=TEXTS)
    found.accuracy = accuracy_of(UTTERANCES, TEXTS, "auto", {})
    header, _, row, _, sent = markdown([found], 100).splitlines()
    assert header.startswith("| model | WER % | CER % | time |")
    assert row.startswith("| base | 25.00 | 44.44 | 1.00 |")
    assert sent == (
        "2 recordings, 100 s of audio; CER, Whisper's basic normaliser, in simplified characters; "
        "WER, Whisper's English normaliser"
    )


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
