from dataclasses import replace
from pathlib import Path

import pytest

from conch.bench.load import LoadResult, Offer, Outcome
from conch.bench.offline import Measured
from conch.bench.samples import Sample
from conch.scoring.error_rates import ENGLISH_WORDS, Accuracy
from conch.scoring.manifest import ManifestEntry
from conch.wire.result import Hypothesis, Transcript
from lab.alignment import DeletedWords, JoinedUtterance, Part
from lab.baselines.faster_whisper import Options
from lab.baselines.one_process import BaselineRun
from lab.figures import (
    BaselineFigures,
    Spoken,
    Versus,
    baseline_figures,
    judged,
    judged_run,
    versus,
)

UTTERANCES = [
    ManifestEntry(Path("a.wav"), "the cat sat down", "dev", "read"),
    ManifestEntry(Path("b.wav"), "", "dev", "read"),
    ManifestEntry(Path("c.wav"), "and it purred", "dev", "talk"),
    ManifestEntry(Path("d.wav"), "good night cat", "dev", "talk"),
]
OPTIONS = Options(model="", compute_type="int8", cpu_threads=2)


def test_a_baseline_gives_the_same_figures_and_a_ratio() -> None:
    run = BaselineRun(
        ("the cat sat", "x", "and it", "good night cat"), (1.0,) * 4, 4.0, 10.0, 6.0, 300
    )
    figures = baseline_figures(UTTERANCES, [1.0] * 4, run, OPTIONS, [ENGLISH_WORDS] * 4)
    assert figures.rtfx == 2.5
    accuracy = figures.accuracy
    assert accuracy.wer == 0.2
    assert figures.cpu_s_per_audio_s == 0.6
    known = replace(figures, rtfx=2.0, accuracy=replace(accuracy, wer=0.21))
    assert versus(known, figures) == Versus(rtfx_ratio=0.8, wer_difference=0.01)
    unknown = replace(figures, rtfx=None, accuracy=replace(accuracy, wer=None))
    assert versus(unknown, figures) == Versus(rtfx_ratio=None, wer_difference=None)


def test_characters_count_where_they_do_in_conch_bench() -> None:
    utterances = [
        ManifestEntry(Path("a.wav"), "皇后的头发后来变白", source="read", language="zh"),
        ManifestEntry(Path("b.wav"), "the cat sat down", source="talk"),
    ]
    texts = ("皇后的頭髮", "the cat sat")
    measured = Measured(
        Offer(concurrency=1),
        [Sample(item, b"", 0, 3.0) for item in utterances],
        LoadResult(
            tuple(
                Outcome(index, 0.1, Transcript((Hypothesis(text, -1.0, -1.0),), (), 3.0, (), {}))
                for index, text in enumerate(texts)
            ),
            wall_s=1.0,
        ),
        None,
    )
    found = judged_run(measured)
    accuracy = found.run.figures.accuracy
    assert accuracy == measured.run().figures.accuracy
    assert (accuracy.wer, accuracy.cer) == (0.25, pytest.approx(4 / 9, abs=1e-6))
    assert [run.words for run in found.deleted_runs] == ["后来变白"]
    in_words = judged_run(replace(measured, metric="wer")).run.figures.accuracy
    assert (in_words.reference_words, in_words.cer) == (5, None)


def figures_of(*texts: str) -> BaselineFigures:
    utterance = ManifestEntry(Path("d.wav"), "one day a fox came and saw the grapes on high")
    measured = BaselineRun(texts, (1.0,) * len(texts), 4.0, 10.0, 6.0, 300)
    count = len(texts)
    scorings = [ENGLISH_WORDS] * count
    return baseline_figures([utterance] * count, [11.0] * count, measured, OPTIONS, scorings)


def test_counts_and_deleted_runs() -> None:
    found = figures_of("one came and saw high", "One day a fax came and and saw the grapes on high")
    accuracy = found.accuracy
    assert accuracy.reference_words == 22
    assert (accuracy.substitutions, accuracy.deletions, accuracy.insertions) == (1, 6, 1)
    assert accuracy.wer == pytest.approx(8 / 22, abs=1e-6)
    day, grapes = found.deleted_runs
    assert day == DeletedWords(
        path="d.wav", start=1.0, end=4.0, words="day a fox", first_word=1, end_word=4
    )
    assert (grapes.start, grapes.end, grapes.words) == (7.0, 10.0, "the grapes on")


def test_the_parts_of_a_joined_recording_are_normalised_on_their_own() -> None:
    parts = (Part(Path("a"), "in nineteen twenty", 0, 2), Part(Path("b"), "one cat", 3, 4))
    joined = JoinedUtterance(Path("ab.flac"), "in nineteen twenty one cat", parts=parts)

    def found(text: str) -> Accuracy:
        return judged([Spoken(joined, 4.0, text)])[0]

    assert found("in 1920 one cat").reference_words == 4
    assert found("in 1920").deletions == 2
