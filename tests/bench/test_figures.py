from pathlib import Path
from typing import Any

import pytest

from conch.bench.baseline import BaselineRun
from conch.bench.figures import accuracy, baseline_figures, mean_stages, run_figures, versus
from conch.bench.load import Load, Outcome
from conch.bench.manifest import Part, Utterance
from conch.wire.result import Hypothesis, Stage, Transcript

UTTERANCES = [
    Utterance(Path("a.wav"), "the cat sat down", "dev", "read"),
    Utterance(Path("b.wav"), "", "dev", "read"),
    Utterance(Path("c.wav"), "and it purred", "dev", "talk"),
    Utterance(Path("d.wav"), "good night cat", "dev", "talk"),
]


def transcript(text: str, **ms: float) -> Transcript:
    stages = {name: Stage(2, value) for name, value in ms.items()}
    return Transcript((Hypothesis(text, -1.0, -1.0),), (), 1.0, tuple(ms), stages)


def load() -> Load[Transcript]:
    outcomes: tuple[Outcome[Transcript], ...] = (
        Outcome(0, 0.1, transcript("The cat sat.", vad=1.0, rescorer=4.0)),
        Outcome(1, 0.2, transcript("Something", vad=3.0)),
        Outcome(2, 0.3, None, "the audio is empty"),
        Outcome(3, 0.4, transcript("Good night, cat!", vad=2.0)),
    )
    return Load(outcomes, wall_s=2.0)


def test_an_utterance_in_error_counts_as_that_and_nowhere_else() -> None:
    figures = run_figures(UTTERANCES, [4.0, 2.0, 8.0, 4.0], load())
    assert figures["utterances"] == 4
    assert figures["errors"] == 1
    assert figures["error_messages"] == [{"path": "c.wav", "message": "the audio is empty"}]
    assert figures["audio_s"] == 10
    assert figures["rtfx"] == 5
    assert figures["latency_ms"]["p50"] == 200
    assert figures["latency_ms"]["max"] == 400


def test_wer_over_all_and_by_source() -> None:
    figures = run_figures(UTTERANCES, [1.0] * 4, load())
    assert figures["wer"] == pytest.approx(1 / 7, abs=1e-6)
    assert figures["wer_by_source"] == {"read": 0.25, "talk": 0}


def test_nothing_answered() -> None:
    failed: Load[Transcript] = Load((Outcome(0, 0.1, None, "no"),), wall_s=1.0)
    figures = run_figures(UTTERANCES[:1], [4.0], failed)
    assert (figures["rtfx"], figures["wer"], figures["stages"]) == (None, None, {})


def test_stages_are_means_over_all_requests() -> None:
    transcripts = [outcome.answer for outcome in load().outcomes if outcome.answer]
    assert mean_stages(transcripts) == {
        "vad": {"calls": 2, "ms": 2},
        # Called for one of three requests.
        "rescorer": {"calls": 0.667, "ms": 1.333},
    }


def test_a_baseline_gives_the_same_figures_and_a_ratio() -> None:
    run = BaselineRun(
        ("the cat sat", "x", "and it", "good night cat"), (1.0,) * 4, 4.0, 10.0, 6.0, 300
    )
    figures = baseline_figures(UTTERANCES, [1.0] * 4, run)
    assert figures["rtfx"] == 2.5
    assert figures["wer"] == 0.2
    assert figures["cpu_s_per_audio_s"] == 0.6
    assert versus({"rtfx": 2.0, "wer": 0.21, "deleted_runs": []}, figures) == {
        "rtfx_ratio": 0.8,
        "wer_difference": 0.01,
        "deleted_runs_alone": [],
    }
    assert versus({"rtfx": None, "wer": None, "deleted_runs": []}, figures) == {
        "rtfx_ratio": None,
        "wer_difference": None,
        "deleted_runs_alone": [],
    }


def spoken(*texts: str) -> dict[str, Any]:
    utterance = Utterance(Path("d.wav"), "one day a fox came and saw the grapes on high")
    measured = BaselineRun(texts, (1.0,) * len(texts), 4.0, 10.0, 6.0, 300)
    return baseline_figures([utterance] * len(texts), [11.0] * len(texts), measured)


def test_counts_and_deleted_runs() -> None:
    figures = spoken("one came and saw high", "One day a fax came and and saw the grapes on high")
    assert figures["reference_words"] == 22
    assert (figures["substitutions"], figures["deletions"], figures["insertions"]) == (1, 6, 1)
    assert figures["wer"] == pytest.approx(8 / 22, abs=1e-6)
    day, grapes = figures["deleted_runs"]
    assert day == {
        "path": "d.wav",
        "start": 1.0,
        "end": 4.0,
        "words": "day a fox",
        "first_word": 1,
        "end_word": 4,
    }
    assert (grapes["start"], grapes["end"], grapes["words"]) == (7.0, 10.0, "the grapes on")


def test_runs_that_the_baseline_does_not_have() -> None:
    run, baseline = spoken("one came and saw high"), spoken("one day a fox came and saw the")
    # The baseline has lost "grapes on high": other words, but of the same stretch.
    (alone,) = versus(run, baseline)["deleted_runs_alone"]
    assert alone["words"] == "day a fox"
    assert versus(baseline, run)["deleted_runs_alone"] == []
    elsewhere = {**baseline["deleted_runs"][0], "path": "e.wav"}
    other = {**baseline, "deleted_runs": [elsewhere]}
    assert len(versus(run, other)["deleted_runs_alone"]) == 2


def test_the_parts_of_a_joined_recording_are_normalised_on_their_own() -> None:
    parts = (Part(Path("a"), "in nineteen twenty", 0, 2), Part(Path("b"), "one cat", 3, 4))
    joined = Utterance(Path("ab.flac"), "in nineteen twenty one cat", parts=parts)
    assert accuracy([(joined, "in 1920 one cat")])["reference_words"] == 4
    assert accuracy([(joined, "in 1920")])["deletions"] == 2
