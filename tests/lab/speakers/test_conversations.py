"""Conversations from made utterances."""

from itertools import pairwise

import numpy as np
import pytest
import soundfile

from conch.cli.demo import SPEECH
from conch.wire.errors import BenchError
from lab.speakers import conversations
from lab.speakers.conversations import (
    conversation,
    overlap_share,
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
