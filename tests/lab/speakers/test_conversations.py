"""Conversations from made utterances."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile

from conch.bench.speakers import activity, edges_of, turns_of
from conch.cli.demo import SPEECH
from conch.wire.errors import BenchError
from lab.speakers import benchmark, conversations
from lab.speakers.benchmark import SpeakersBenchmark
from lab.speakers.conversations import (
    conversation,
    read_sources,
    speech_spans,
)


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("speech")
    samples, rate = soundfile.read(SPEECH, dtype="float32")
    lines = ["path\tduration\tsplit\tsource\tspeaker\ttext"]
    for speaker in range(3):
        for number in range(3):
            part = samples[number * 16_000 : number * 16_000 + 40_000]
            name = f"{speaker}-{number}.wav"
            soundfile.write(folder / name, part, rate)
            lines.append(f"{name}\t2.5\tdev\tverse\t{speaker}\tTiger, {number}.")
    lines.append("x.wav\t2.5\tdev\tverse\tunknown\tNobody.")
    (folder / "manifest.tsv").write_text("\n".join(lines))
    return read_sources(folder / "manifest.tsv", "dev")


def overlap_share(turns):
    """Return the share of the time with speech in which several speak."""
    edges = edges_of(turns)
    counts, lengths = activity(turns, edges).sum(axis=0), np.diff(edges)
    return lengths[counts > 1].sum() / lengths[counts > 0].sum()


@pytest.mark.parametrize("condition", ["clean", "noise", "telephone"])
def test_a_conversation_is_as_its_seed(sources, condition):
    made = [conversation(sources, 3, 20, condition, [1, 2]) for _ in range(2)]
    np.testing.assert_array_equal(made[0].waveform, made[1].waveform)
    assert made[0].turns == made[1].turns
    assert made[0].speakers == 3 and made[0].duration_s >= 20
    assert made[0].sample_rate == (8_000 if condition == "telephone" else 16_000)
    assert all(0 <= turn.start < turn.end <= made[0].duration_s for turn in made[0].turns)
    assert 0 < overlap_share(made[0].turns) < 0.5
    other = conversation(sources, 3, 20, condition, [1, 3])
    assert other.turns != made[0].turns


@pytest.mark.parametrize(("overlaps", "low", "high"), [(0.0, 0.1, 1.0), (1.0, -1.0, -0.2)])
def test_gaps_and_overlaps_are_real_ones(sources, overlaps, low, high):
    said = conversation(sources, 2, 20, "clean", [1], overlaps).utterances
    gaps = [later.start - before.end for before, later in pairwise(said)]
    assert all(low - 0.001 <= gap <= high + 0.001 for gap in gaps)


def test_a_turn_has_the_short_pauses_of_its_utterance(monkeypatch):
    def spans(*pauses: tuple[int, int]) -> list[tuple[int, int]]:
        probs = np.ones(100, np.float32)
        for first, behind in pauses:
            probs[first:behind] = 0
        monkeypatch.setattr(conversations, "speech_probs", lambda _: probs)
        return speech_spans(np.zeros(51_200, np.float32), (1_000, 50_000))

    assert spans((0, 8), (40, 55)) == [(1_000, 50_000)]
    assert spans((40, 56)) == [(1_000, 40 * 512), (56 * 512, 50_000)]
    assert spans((0, 100)) == []


def test_too_few_speakers_are_told(sources):
    with pytest.raises(BenchError, match="4 speakers are asked for, and there are 3"):
        conversation(sources, 4, 20, "clean", [1])


def test_conversations_are_files_with_their_turns(sources, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "read_sources", lambda manifest, split: sources)
    conditions = ("clean", "telephone")
    sizes = {"speakers": (2,), "conversations": 2, "seconds": 5}
    settings = SpeakersBenchmark(manifest=Path("none"), conditions=conditions, **sizes)
    paths = benchmark.written(settings, tmp_path)
    assert [path.name for path in paths] == [
        *("clean-2-1.wav", "clean-2-2.wav", "telephone-2-1.wav", "telephone-2-2.wav")
    ]
    first = settings.made(sources, "clean", 2)[0]
    turns = turns_of(paths[0], None)
    assert [turn.speaker for turn in turns] == [turn.speaker for turn in first.turns]
    assert [turn.end for turn in turns] == pytest.approx(
        [turn.end for turn in first.turns], abs=2e-3
    )
    recording = soundfile.info(paths[2])
    assert (recording.samplerate, recording.subtype) == (8_000, "FLOAT")
    assert recording.duration >= 5
