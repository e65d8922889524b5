"""From what came of a run to the figures that a report states."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from conch.bench.alignment import Alignment, DeletedRun, align, reference_words
from conch.bench.baseline import BaselineRun
from conch.bench.load import Load
from conch.bench.manifest import Part, Utterance
from conch.bench.measures import latency_ms, rtfx
from conch.wire.result import Transcript

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
    spoken = [
        (_timed(utterances[index], durations_s[index]), answer.text)
        for index, answer, _ in answered
    ]
    return {
        "rtfx": rtfx(audio_s, load.wall_s),
        **accuracy(spoken),
        "deleted_runs": deleted_runs(spoken),
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


def baseline_figures(
    utterances: Sequence[Utterance], durations_s: Sequence[float], run: BaselineRun
) -> dict[str, Any]:
    """Return the same figures of a baseline, as far as they apply to it."""
    spoken = list(zip(map(_timed, utterances, durations_s), run.texts, strict=True))
    return {
        "rtfx": rtfx(run.audio_s, run.wall_s),
        **accuracy(spoken),
        "deleted_runs": deleted_runs(spoken),
        "latency_ms": latency_ms(run.latencies_s),
        "audio_s": round(run.audio_s, 3),
        "wall_s": round(run.wall_s, 3),
        "utterances": len(run.texts),
        "cpu_s_per_audio_s": round(run.cpu_s / run.audio_s, 5),
        "peak_memory_mb": run.memory_mb,
    }


def versus(run: Mapping[str, Any], baseline: Mapping[str, Any]) -> dict[str, Any]:
    """Compare a run with a baseline.

    Returns:
        The ratio of RTFx, the difference of WER (a fraction), and the deleted runs none of whose
        words is in a deleted run of the baseline.
    """
    is_timed = None not in (run["rtfx"], baseline["rtfx"])
    is_judged = None not in (run["wer"], baseline["wer"])
    return {
        "rtfx_ratio": round(run["rtfx"] / baseline["rtfx"], 4) if is_timed else None,
        "wer_difference": round(run["wer"] - baseline["wer"], 6) if is_judged else None,
        "deleted_runs_alone": [
            found
            for found in run["deleted_runs"]
            if not any(_overlap(found, other) for other in baseline["deleted_runs"])
        ],
    }


def accuracy(spoken: Spoken) -> dict[str, Any]:
    """Return the word error rate, over all and by source, and the counts that it is made of.

    It is counted as by `conch.bench.measures.word_error_rate`. Of a joined recording each part is
    normalised on its own.
    """
    aligned = _aligned(spoken)
    sources = dict.fromkeys(utterance.source for utterance, _ in spoken if utterance.source)
    by_source = {
        source: [found for utterance, found in aligned if utterance.source == source]
        for source in sources
    }
    return {
        "wer": _wer([found for _, found in aligned]),
        "wer_by_source": {source: _wer(found) for source, found in by_source.items()},
        "reference_words": sum(found.words for _, found in aligned),
        "substitutions": sum(found.substitutions for _, found in aligned),
        "deletions": sum(found.deletions for _, found in aligned),
        "insertions": sum(found.insertions for _, found in aligned),
    }


def deleted_runs(spoken: Spoken) -> list[dict[str, Any]]:
    """Return every run of `MIN_RUN` deleted words and more, with its times.

    Args:
        spoken: utterances that have parts.
    """
    return [
        _deleted_run(utterance, run)
        for utterance, found in _aligned(spoken)
        for run in found.deleted_runs
    ]


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


def _timed(utterance: Utterance, duration_s: float) -> Utterance:
    """Return the utterance with a part that lasts all of it, unless it has parts."""
    whole = Part(utterance.path, utterance.text, 0.0, duration_s)
    return utterance if utterance.parts else replace(utterance, parts=(whole,))


def _aligned(spoken: Spoken) -> list[tuple[Utterance, Alignment]]:
    """Align what has a reference; nothing may be left of one after the normaliser."""
    aligned = []
    for utterance, text in spoken:
        if utterance.text.strip():
            words = reference_words(_timed(utterance, 0.0).parts)
            if words:
                aligned.append((utterance, align(words, text)))
    return aligned


def _deleted_run(utterance: Utterance, run: DeletedRun) -> dict[str, Any]:
    return {
        "path": str(utterance.path),
        "start": round(run.start_s, 2),
        "end": round(run.end_s, 2),
        "words": run.text,
        "first_word": run.first_word,
        "end_word": run.first_word + len(run.words),
    }


def _overlap(run: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(
        run["path"] == other["path"]
        and run["first_word"] < other["end_word"]
        and other["first_word"] < run["end_word"]
    )


def _wer(aligned: Iterable[Alignment]) -> float | None:
    found = list(aligned)
    words = sum(item.words for item in found)
    return round(sum(item.errors for item in found) / words, 6) if words else None
