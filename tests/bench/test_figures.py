import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conch.bench.figures import (
    PERCENTILES,
    ErrorMessage,
    Latency,
    MeanStage,
    latency_ms,
    mean_stages,
    rtfx,
    run_figures,
)
from conch.bench.load import LoadResult, Outcome
from conch.bench.samples import Sample
from conch.scoring.manifest import ManifestEntry
from conch.wire.result import Hypothesis, Stage, Transcript

UTTERANCES = [
    ManifestEntry(Path("a.wav"), "the cat sat down", "dev", "read"),
    ManifestEntry(Path("b.wav"), "", "dev", "read"),
    ManifestEntry(Path("c.wav"), "and it purred", "dev", "talk"),
    ManifestEntry(Path("d.wav"), "good night cat", "dev", "talk"),
]


def samples(*durations_s: float) -> list[Sample]:
    pairs = zip(UTTERANCES, durations_s, strict=False)
    return [Sample(utterance, b"", 16_000, duration_s) for utterance, duration_s in pairs]


def transcript(text: str, **ms: float) -> Transcript:
    stages = {name: Stage(2, value) for name, value in ms.items()}
    return Transcript((Hypothesis(text, -1.0, -1.0),), (), 1.0, tuple(ms), stages)


def load() -> LoadResult[Transcript]:
    outcomes: tuple[Outcome[Transcript], ...] = (
        Outcome(0, 0.1, transcript("The cat sat.", vad=1.0, rescorer=4.0)),
        Outcome(1, 0.2, transcript("Something", vad=3.0)),
        Outcome(2, 0.3, None, "the audio is empty"),
        Outcome(3, 0.4, transcript("Good night, cat!", vad=2.0)),
    )
    return LoadResult(outcomes, wall_s=2.0)


def test_an_utterance_in_error_counts_as_that_and_nowhere_else() -> None:
    figures = run_figures(samples(4.0, 2.0, 8.0, 4.0), load())
    assert figures.utterances == 4
    assert figures.errors == 1
    assert figures.error_messages == [ErrorMessage("c.wav", "the audio is empty")]
    assert figures.audio_s == 10
    assert figures.rtfx == 5
    assert figures.latency_ms.p50 == 200
    assert figures.latency_ms.max == 400


def test_wer_over_all_and_by_source() -> None:
    accuracy = run_figures(samples(1.0, 1.0, 1.0, 1.0), load()).accuracy
    assert accuracy.wer == pytest.approx(1 / 7, abs=1e-6)
    assert accuracy.wer_by_source == {"read": 0.25, "talk": 0}


def test_the_language_is_of_the_manifest_else_of_the_option_else_of_the_answer() -> None:
    told = transcript("今天天")

    def cer(of_manifest: str = "", option: str = "", of_answer: str = "") -> float | None:
        outcome = Outcome(0, 0.1, replace(told, language=of_answer))
        said = Sample(
            ManifestEntry(Path("a.wav"), "今天天气", language=of_manifest), b"", 16_000, 1.0
        )
        options = {"language": option}
        return run_figures([said], LoadResult((outcome,), 1.0), "auto", options).accuracy.cer

    assert cer(of_answer="zh") == cer(option="zh", of_answer="en") == 0.25
    assert cer(of_manifest="zh", option="en", of_answer="en") == 0.25
    assert cer() is None
    assert cer(option="auto") is None


def test_a_translation_is_compared_in_english_whatever_was_spoken() -> None:
    text = "The colour of twenty cats."
    said = Sample(ManifestEntry(Path("a.wav"), text, language="zh"), b"", 16_000, 1.0)
    answer = replace(transcript("the color of 20 cats"), language="en", translated_from="zh")
    answered = LoadResult((Outcome(0, 0.1, answer),), 1.0)
    options = {"task": "translate", "language": "zh"}
    accuracy = run_figures([said], answered, "auto", options).accuracy
    assert (accuracy.wer, accuracy.cer) == (0, None)
    assert accuracy.scoring == ["WER, Whisper's English normaliser"]


def test_nothing_answered() -> None:
    failed: LoadResult[Transcript] = LoadResult((Outcome(0, 0.1, None, "no"),), wall_s=1.0)
    figures = run_figures(samples(4.0), failed)
    assert (figures.rtfx, figures.accuracy.wer, figures.stages) == (None, None, {})


def test_stages_are_means_over_all_requests() -> None:
    transcripts = [outcome.answer for outcome in load().outcomes if outcome.answer]
    assert mean_stages(transcripts) == {
        "vad": MeanStage(2, 2),
        # Called for one of three requests.
        "rescorer": MeanStage(0.667, 1.333),
    }


def test_percentiles_by_hand() -> None:
    # 1 to 101 ms: the p-th percentile is p + 1, without interpolation.
    latencies = [count / 1000 for count in range(1, 102)]
    random.Random(7).shuffle(latencies)
    result = latency_ms(latencies)
    assert result.percentiles == pytest.approx((51, 91, 96, 100))
    assert (result.mean, result.max) == pytest.approx((51, 101))


def test_percentiles_interpolate_between_neighbours() -> None:
    assert latency_ms([0.010, 0.020]).p50 == pytest.approx(15)
    assert latency_ms([0.010, 0.020]).p90 == pytest.approx(19)
    assert latency_ms([0.5]).p99 == pytest.approx(500)


def test_percentiles_against_numpy() -> None:
    latencies = np.random.default_rng(3).exponential(0.2, size=997)
    result = latency_ms(list(latencies))
    expected = np.percentile(latencies, PERCENTILES) * 1000
    assert result.percentiles == pytest.approx(tuple(expected), abs=1e-3)


def test_no_latency_no_figure() -> None:
    assert latency_ms([]) == Latency()


def test_rtfx() -> None:
    assert rtfx(audio_s=60, wall_s=4) == 15
    assert rtfx(audio_s=0, wall_s=4) is None
