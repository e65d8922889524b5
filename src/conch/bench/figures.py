"""From what came of a run to the figures that a report states."""

from collections.abc import Mapping, Sequence
from typing import Any

from conch.bench.baseline import BaselineRun
from conch.bench.load import Load
from conch.bench.manifest import Utterance
from conch.bench.measures import latency_ms, rtfx, word_error_rate
from conch.result import Transcript

Spoken = Sequence[tuple[Utterance, str]]
"""Utterances, each with what was understood."""


def run_figures(
    utterances: Sequence[Utterance], durations_s: Sequence[float], load: Load[Transcript]
) -> dict[str, Any]:
    """Return what one run says about speed, accuracy and errors.

    Utterances answered with an error count as errors and in no other figure.
    """
    answered = [
        (outcome.index, outcome.answer, outcome.latency_s)
        for outcome in load.outcomes
        if outcome.answer is not None
    ]
    audio_s = sum(durations_s[index] for index, _, _ in answered)
    return {
        "rtfx": rtfx(audio_s, load.wall_s),
        **accuracy([(utterances[index], answer.text) for index, answer, _ in answered]),
        "latency_ms": latency_ms([latency_s for _, _, latency_s in answered]),
        "audio_s": round(audio_s, 3),
        "wall_s": round(load.wall_s, 3),
        "utterances": len(load.outcomes),
        "errors": len(load.outcomes) - len(answered),
        "error_messages": [
            {"path": str(utterances[outcome.index].path), "message": outcome.error}
            for outcome in load.outcomes
            if outcome.answer is None
        ],
        "stages": mean_stages([answer for _, answer, _ in answered]),
    }


def baseline_figures(utterances: Sequence[Utterance], run: BaselineRun) -> dict[str, Any]:
    """Return the same figures of a baseline, as far as they apply to it."""
    return {
        "rtfx": rtfx(run.audio_s, run.wall_s),
        **accuracy(list(zip(utterances, run.texts, strict=True))),
        "latency_ms": latency_ms(run.latencies_s),
        "audio_s": round(run.audio_s, 3),
        "wall_s": round(run.wall_s, 3),
        "utterances": len(run.texts),
        "cpu_s_per_audio_s": round(run.cpu_s / run.audio_s, 5),
        "peak_memory_mb": run.memory_mb,
    }


def versus(run: Mapping[str, Any], baseline: Mapping[str, Any]) -> dict[str, float | None]:
    """Compare a run with a baseline: the ratio of RTFx, the difference of WER (a fraction)."""
    is_timed = None not in (run["rtfx"], baseline["rtfx"])
    is_judged = None not in (run["wer"], baseline["wer"])
    return {
        "rtfx_ratio": round(run["rtfx"] / baseline["rtfx"], 4) if is_timed else None,
        "wer_difference": round(run["wer"] - baseline["wer"], 6) if is_judged else None,
    }


def accuracy(spoken: Spoken) -> dict[str, Any]:
    """Return `wer` and `wer_by_source`."""
    by_source: dict[str, list[tuple[Utterance, str]]] = {}
    for utterance, text in spoken:
        by_source.setdefault(utterance.source, []).append((utterance, text))
    return {
        "wer": _wer(spoken),
        "wer_by_source": {source: _wer(pairs) for source, pairs in by_source.items() if source},
    }


def mean_stages(transcripts: Sequence[Transcript]) -> dict[str, dict[str, float]]:
    """Return mean calls and milliseconds per request by component; one not called counts 0."""
    names = dict.fromkeys(name for transcript in transcripts for name in transcript.stages)
    return {name: _stage(transcripts, name) for name in names}


def _stage(transcripts: Sequence[Transcript], name: str) -> dict[str, float]:
    stages = [transcript.stages[name] for transcript in transcripts if name in transcript.stages]
    return {
        "calls": round(sum(stage.calls for stage in stages) / len(transcripts), 3),
        "ms": round(sum(stage.ms for stage in stages) / len(transcripts), 3),
    }


def _wer(spoken: Spoken) -> float | None:
    return word_error_rate([item.text for item, _ in spoken], [text for _, text in spoken])
