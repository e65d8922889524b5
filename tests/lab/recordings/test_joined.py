from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from conch.scoring.manifest import ManifestEntry
from conch.wire.errors import BenchError
from lab.recordings.joined import BETWEEN, Between, Group, JoinedRecording, Joining, groups, join
from lab.telephone import amplitude, rms

RATE = 16_000
LENGTHS = (12_000, 16_000, 20_001)
UTTERANCES = [
    ManifestEntry(Path(f"{place}.wav"), f"word {place}", "dev", "read") for place in range(3)
]
GROUP = Group(0, (0, 1, 2), (0.5, 0.25))


def waveforms() -> list[NDArray[np.float32]]:
    return [
        (0.2 * np.sin(np.arange(length) * (place + 1) / 20)).astype(np.float32)
        for place, length in enumerate(LENGTHS)
    ]


def joined(group: Group = GROUP, **others: object) -> JoinedRecording:
    return join(UTTERANCES, waveforms(), group, Joining(seconds=1, **others))  # type: ignore[arg-type]


def length_s(group: Group, durations_s: list[float]) -> float:
    return sum(durations_s[index] for index in group.indices) + sum(group.pauses_s)


def test_groups_take_every_utterance_in_order_up_to_the_length() -> None:
    durations_s = list(np.random.default_rng(5).uniform(1, 20, size=200))
    joining = Joining(seconds=60, pause_s=(0.1, 0.4))
    found = groups(durations_s, joining)
    taken = [index for group in found for index in group.indices]
    assert taken == list(range(len(taken)))
    assert [group.number for group in found] == list(range(len(found)))
    for group in found[:-1]:
        # Long enough, and not without the last utterance.
        last_s = durations_s[group.indices[-1]] + group.pauses_s[-1]
        assert length_s(group, durations_s) - last_s < 60 <= length_s(group, durations_s)
    for group in found:
        assert len(group.pauses_s) == len(group.indices) - 1
        assert all(0.1 <= pause_s <= 0.4 for pause_s in group.pauses_s)


def test_pauses_fill_their_range_and_depend_on_the_seed_alone() -> None:
    durations_s = [1.0] * 400

    def pauses(seed: int) -> list[float]:
        (group,) = groups(durations_s, Joining(seconds=1150, pause_s=(1, 3), seed=seed))
        return list(group.pauses_s)

    assert pauses(1) == pauses(1) != pauses(2)
    assert min(pauses(1)) < 1.1
    assert max(pauses(1)) > 2.9
    assert np.mean(pauses(1)) == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize(("left", "recordings"), [(1, 1), (4, 1), (5, 2), (9, 2)])
def test_the_rest_is_a_recording_if_it_has_half_the_length(left: int, recordings: int) -> None:
    found = groups([1.0] * (10 + left), Joining(seconds=10, pause_s=(0, 0)))
    assert len(found) == recordings
    assert len(found[0].indices) == 10


def test_too_little_for_one_recording_is_an_error() -> None:
    with pytest.raises(BenchError, match=r"make 4 s of recordings, less than half of one of 10 s"):
        groups([1.0] * 4, Joining(seconds=10, pause_s=(0, 0)))
    with pytest.raises(BenchError, match=r"make 0 s"):
        groups([], Joining(seconds=10))


def test_a_recording_is_its_utterances_at_their_times() -> None:
    recording = joined()
    pauses = (8_000, 4_000)
    assert len(recording.waveform) == sum(LENGTHS) + sum(pauses)
    assert recording.waveform.dtype == np.float32
    assert recording.sample_rate == RATE
    assert recording.text == "word 0 word 1 word 2"
    assert recording.source == "read"
    starts = (0, 12_000 + 8_000, 12_000 + 8_000 + 16_000 + 4_000)
    for place, (part, start, waveform) in enumerate(
        zip(recording.parts, starts, waveforms(), strict=True)
    ):
        assert (part.path, part.text) == (UTTERANCES[place].path, UTTERANCES[place].text)
        assert part.start_s == start / RATE
        assert part.end_s == (start + len(waveform)) / RATE
        np.testing.assert_array_equal(
            recording.waveform[start : start + len(waveform)], waveform, strict=True
        )


def pause(recording: JoinedRecording, place: int) -> NDArray[np.float32]:
    before, after = list(pairwise(recording.parts))[place]
    return recording.waveform[round(before.end_s * RATE) : round(after.start_s * RATE)]


@pytest.mark.parametrize(
    ("between", "level"),
    [
        ("silence", amplitude(-70)),
        ("noise", rms(np.concatenate(waveforms())) * amplitude(-10)),
        ("music", rms(np.concatenate(waveforms())) * amplitude(-10)),
    ],
)
def test_pauses_hold_what_was_asked_for_at_its_level(between: Between, level: float) -> None:
    for place in range(2):
        # Half a second of a tune is not as loud as all of it.
        assert rms(pause(joined(between=between), place)) == pytest.approx(level, rel=0.5)


@pytest.mark.parametrize("between", BETWEEN)
def test_the_same_seed_gives_the_same_samples(between: Between) -> None:
    first = joined(between=between).waveform
    np.testing.assert_array_equal(first, joined(between=between).waveform)
    is_random = between != "music"
    other = Group(1, GROUP.indices, GROUP.pauses_s)
    assert (first != joined(between=between, seed=2).waveform).any() == is_random
    assert (first != joined(other, between=between).waveform).any() == is_random


@pytest.mark.parametrize("between", BETWEEN)
def test_there_need_not_be_pauses(between: Between) -> None:
    recording = joined(Group(0, (0, 1, 2), (0.0, 0.0)), between=between)
    np.testing.assert_array_equal(recording.waveform, np.concatenate(waveforms()))


def test_a_telephone_call_keeps_the_times() -> None:
    call = joined(is_telephone=True)
    assert call.sample_rate == 8_000
    assert call.parts == joined().parts
    assert call.duration_s == pytest.approx(joined().duration_s, abs=0.001)


def test_a_recording_of_several_sources_is_mixed() -> None:
    several = [*UTTERANCES[:2], ManifestEntry(Path("x.wav"), "", "dev", "talk")]
    recording = join(several, waveforms(), GROUP, Joining(seconds=1))
    assert recording.source == "mixed"
    assert recording.text == "word 0 word 1"
