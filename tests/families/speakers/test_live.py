"""The state machine of live labels, on voices that are drawn; and streams on plain components."""

import random
from typing import Any

import numpy as np
import pytest
from plain_labels import file_of
from plain_streams import STEP, audio, ended_once, streaming

from conch.component import unit
from conch.families.speakers.clustering import MOST_PIECES
from conch.families.speakers.live import (
    FRAME_S,
    SETTLE_S,
    EmbeddedPiece,
    LiveVoices,
    Run,
    relabelled,
    solos,
)
from conch.families.speakers.live_labels import LiveLabels
from conch.families.speakers.pieces import WINDOW_S
from conch.wire.errors import OptionError
from conch.wire.known_speakers import option_of
from conch.wire.options import RecognitionOptions
from conch.wire.result import Turn
from conch.wire.turns import joined_turns

WINDOW, TICK = round(WINDOW_S / FRAME_S), 38
LABELLERS = {"speaker_segmentation", "speaker_embedding"}


class World:
    """Voices that differ, and networks that hear who speaks."""

    def __init__(self, voices: int = 4, seed: int = 1) -> None:
        self.random = np.random.default_rng(seed)
        self.voices = unit(self.random.standard_normal((voices, 192)).astype(np.float32))

    def sound(self, voice: int) -> np.ndarray:
        """Return an embedding of a voice: two of one voice have a cosine of some 0.7."""
        noise = unit(self.random.standard_normal(192).astype(np.float32))
        return unit(self.voices[voice] + 0.6 * noise)

    def hear(self, labels: LiveVoices, speaks: np.ndarray, offset: int = 0) -> list[list[Run]]:
        """Let windows hear who speaks, bool [frames, voices]; return what is said after each."""
        said = []
        for end in range(TICK, len(speaks) + TICK, TICK):
            end = min(end, len(speaks))
            first, since = max(0, end - WINDOW), (end - 1) // TICK * TICK
            if speaks[since:end].any():
                present = np.flatnonzero(speaks[first:end].any(axis=0))[:3]
                numbers = self.random.permutation(3)[: len(present)]
                active = np.zeros((end - first, 3), bool)
                active[:, numbers] = speaks[first:end, present]
                alone = solos(offset + first, active, offset + since)
                whose = dict(zip(numbers.tolist(), present.tolist(), strict=True))
                heard = [(solo, self.sound(whose[solo.speaker])) for solo in alone]
                labels.after_window(offset + first, active, heard)
            labels.settle(max(0, offset + end - round(SETTLE_S / FRAME_S)))
            said.append(labels.since(offset + first))
        return said


def talk(*turns: tuple[int | None, float], voices: int = 4) -> np.ndarray:
    """Return who speaks in turns of some seconds each; None is a pause."""
    parts = []
    for voice, seconds in turns:
        part = np.zeros((round(seconds / FRAME_S), voices), bool)
        if voice is not None:
            part[:, voice] = True
        parts.append(part)
    return np.concatenate(parts)


def owners(runs: list[Run], frames: int, voices: int) -> np.ndarray:
    found = np.zeros((frames, voices), bool)
    for item in runs:
        found[item.first : item.behind, item.voice] = True
    return found


def test_each_voice_gets_a_number_and_keeps_it() -> None:
    turns = [(0, 4.0), (None, 0.5), (1, 5.0), (0, 3.0), (2, 4.0), (1, 2.0), (0, 3.0)]
    speaks = talk(*turns, (None, 3.0))
    labels = LiveVoices(64)
    World().hear(labels, speaks)
    found = owners(labels.runs, len(speaks), 4)
    assert (found == speaks).mean() > 0.98
    # Who begins has no name until two pieces agree, which then takes back a part of it.
    assert labels.runs[0].first * FRAME_S < 1.5


def test_what_is_settled_never_changes() -> None:
    turns = [(number % 3, 1.5 + number % 2) for number in range(20)]
    speaks = talk(*turns, (None, 3.0))
    labels = LiveVoices(64)
    said = World().hear(labels, speaks)
    final = owners(labels.runs, len(speaks), 4)
    late = round(SETTLE_S / FRAME_S)
    for tick, runs in enumerate(said):
        end = min(len(speaks), (tick + 1) * TICK)
        first, until = max(0, end - WINDOW), max(0, end - late)
        then = owners(runs, len(speaks), 4)[first:until]
        # Except what a gap or a length that is not known yet adds or takes.
        assert (then != final[first:until]).sum() <= 0.1 * then.size


@pytest.mark.parametrize(("pause_s", "number"), [(0.4, 1), (0.7, 2)])
def test_a_short_pause_belongs_to_the_turn(pause_s: float, number: int) -> None:
    speaks = talk((0, 4.0), (None, pause_s), (0, 4.0), (None, 3.0))
    labels = LiveVoices(64)
    World().hear(labels, speaks)
    assert len(labels.runs) == number


def test_two_at_once_are_both_told() -> None:
    speaks = talk((0, 6.0), (1, 6.0), (0, 6.0), (1, 6.0), (None, 3.0))
    overlap = slice(round(11.0 / FRAME_S), round(13.0 / FRAME_S))
    speaks[overlap, :2] = True
    labels = LiveVoices(64)
    World().hear(labels, speaks)
    assert owners(labels.runs, len(speaks), 4)[overlap, :2].mean() > 0.9


def test_no_more_voices_than_asked_for() -> None:
    speaks = talk(*[(number, 5.0) for number in range(4)], (None, 3.0))
    labels = LiveVoices(2)
    World().hear(labels, speaks)
    assert {item.voice for item in labels.runs} == {0, 1}


@pytest.mark.parametrize("seed", range(10))
def test_runs_are_the_same_however_frames_are_settled(seed: int) -> None:
    chance = random.Random(seed)
    speaks = talk(*[(chance.randrange(3), chance.uniform(0.1, 2.0)) for _ in range(3)])
    active = speaks[:WINDOW, :3]
    found = []
    for steps in (1, 7, 40):
        labels = LiveVoices(64)
        for number, voice in enumerate(np.eye(3, 192, dtype=np.float32)):
            labels._sums.append(voice)
            assert number < 3
        alone = solos(0, active, 0)
        eyes = np.eye(3, 192, dtype=np.float32)
        labels.after_window(0, active, [(solo, eyes[solo.speaker]) for solo in alone])
        for until in sorted(chance.sample(range(1, WINDOW + 60), steps - 1)):
            labels.settle(until)
        labels.settle(WINDOW + 60)
        found.append(sorted(labels.runs))
    assert found[0] == found[1] == found[2]


@pytest.mark.nightly  # ten seconds on a busy machine
def test_a_day_takes_bounded_memory_and_voices_stay() -> None:
    world, labels = World(3), LiveVoices(64)
    scene = talk((0, 3.0), (1, 3.0), (2, 3.0), (None, 6.0), voices=3)
    every = round(300.0 / FRAME_S)
    for scenes in range(24 * 12):
        world.hear(labels, scene, scenes * every)
        if scenes % 24 == 0:
            labels.regroup()
    assert MOST_PIECES / 2 <= len(labels.pieces) <= MOST_PIECES
    assert len(labels._votes) * FRAME_S < 20
    assert {item.voice for item in labels.runs} == {0, 1, 2}
    last = [item.voice for item in labels.runs if item.first >= (24 * 12 - 1) * every]
    assert last == [0, 1, 2], "the same voices after a day"
    assert ended(labels.runs, labels.pieces) == ([*map(frames_of, labels.runs)], [])


def frames_of(run: Run) -> Turn:
    """Return a run as a turn whose times are frames."""
    return Turn(str(run.voice), run.first, run.behind)


def ended(runs: list[Run], pieces: list[EmbeddedPiece]) -> tuple[list[Turn], list[Turn]]:
    """Return the runs of a stream that has ended, and those of them with another voice."""
    parts, _ = relabelled(runs, pieces, is_line=False)
    changed = [frames_of(run) for place, run in parts if run.voice != runs[place].voice]
    return joined_turns(frames_of(run) for _, run in parts), joined_turns(changed)


def test_the_end_joins_a_voice_that_was_two_and_keeps_letters() -> None:
    world = World(3)
    runs = [Run(0, 0, 500), Run(1, 600, 1100), Run(2, 1200, 1700), Run(0, 1800, 2300)]
    whose = [0, 1, 0, 0]  # the third run is the first voice again
    pieces = [
        EmbeddedPiece(float(place), 1.5, item.voice, world.sound(voice))
        for item, voice in zip(runs, whose, strict=True)
        for place in range(item.first, item.behind, 40)
    ]
    found, changed = ended(runs, pieces)
    assert [item.speaker for item in found] == ["0", "1", "0", "0"]
    assert changed == [Turn("0", 1200, 1700)]


def test_the_end_parts_two_voices_that_were_one() -> None:
    world = World(3)
    runs = [Run(0, 0, 800), Run(1, 900, 1700)]
    pieces = [
        *(EmbeddedPiece(float(place), 1.5, 0, world.sound(0)) for place in range(0, 400, 40)),
        *(EmbeddedPiece(float(place), 1.5, 0, world.sound(2)) for place in range(420, 800, 40)),
        *(EmbeddedPiece(float(place), 1.5, 1, world.sound(1)) for place in range(900, 1700, 40)),
    ]
    found, (changed,) = ended(runs, pieces)
    assert sorted({item.speaker for item in found}) == ["0", "1", "2"]
    assert sum(item.end - item.start for item in found) == 1600
    assert changed.speaker == "2"


async def test_the_end_tells_who_was_known_too_late() -> None:
    world = World()
    known = option_of([{"name": "Ann", "embedding": world.voices[1]}])
    options = RecognitionOptions.parse({"speakers": "auto", "known_speakers": known}, live=True)

    no_calls: Any = None
    labels = LiveLabels(options, no_calls)
    world.hear(labels._voices, talk((0, 5.0), (1, 5.0), (0, 5.0), (1, 5.0), (None, 3.0)))
    assert [turn.speaker for turn in labels.take_turns()] == ["A", "B", "A", "B"]
    found = await labels.finish()
    assert [turn.speaker for turn in found.turns] == ["A", "Ann", "A", "Ann"]
    assert [*found.relabelled] == [turn for turn in found.turns if turn.speaker == "Ann"]


SPOKEN = audio("..1111....5555....1111.....")
TWO_PASSES = {"mode": "two_pass", "decoder": "moonshine"}


async def answers(sizes: list[int], waveform: np.ndarray = SPOKEN, **options):
    async with streaming(adaptive=False, **options) as (client, components):
        found, start = [], 0
        for size in sizes:
            found.append(await client.send(waveform[start : start + size]))
            start += size
        found.append(await client.send(waveform[start:], ends=True))
    return found, components


@pytest.mark.parametrize("options", [{}, TWO_PASSES], ids=["streaming", "two_pass"])
async def test_labels_do_not_depend_on_the_chunks(options) -> None:
    chance = random.Random(5)
    cuts = [[STEP] * 26, [chance.randrange(1, 3 * STEP) for _ in range(14)], [7 * STEP]]
    found = [(await answers(sizes, speakers="auto", **options))[0] for sizes in cuts]
    assert [item.speaker for item in found[0][-1].segments] == ["A", "B", "A"]
    assert [turn.speaker for turn in found[0][-1].turns] == ["A", "B", "A"]
    assert found[0][-1].speakers == found[1][-1].speakers == found[2][-1].speakers
    for other in found[1:]:
        assert other[-1].segments == found[0][-1].segments
        assert other[-1].turns == found[0][-1].turns
        told = [turn for answer in other[:-1] for turn in answer.turns]
        assert told == list(found[0][-1].turns)[: len(told)]


async def test_open_words_have_speakers_and_segments_are_sent_again_if_theirs_change() -> None:
    found, components = await answers([STEP] * 26, speakers="auto")
    words = [word for item in found if item.utterance for word in item.utterance.words]
    assert {str(word.speaker) for word in words} >= {"A", "B"}
    latest: dict[int, str] = {}
    for item in found:
        latest |= {segment.index: segment.speaker for segment in item.segments}
    assert latest == {0: "A", 1: "B", 2: "A"}
    assert set(components.calls) >= LABELLERS
    assert found[-1].relabelled == ()
    assert ended_once(components)


@pytest.mark.parametrize("options", [{}, TWO_PASSES], ids=["streaming", "two_pass"])
async def test_known_voices_have_their_names_from_the_first_word(options) -> None:
    second = np.eye(21, dtype=np.float32)[10]  # of the level 5 in `audio`
    for sent in ({"embedding": second}, {"audio": file_of(audio("..5555.."))}):
        known = option_of([{"name": "A", **sent}, {"name": "Eve", "embedding": np.eye(21)[3]}])
        found, _ = await answers([STEP] * 26, speakers="auto", known_speakers=known, **options)
        assert [item.speaker for item in found[-1].segments] == ["B", "A", "B"]
        assert found[-1].relabelled == ()
        told = [turn.speaker for answer in found[:-1] for turn in answer.turns]
        assert told == ["B", "A", "B"][: len(told)]
        words = [word for item in found if item.utterance for word in item.utterance.words]
        assert {word.speaker for word in words if word.speaker} == {"A", "B"}


async def test_a_known_voice_that_cannot_be_followed_refuses_the_stream() -> None:
    known = option_of([{"name": "Ann", "audio": file_of(audio("..1.."))}])
    with pytest.raises(OptionError, match=r"'Ann'\): its audio has 0.6 s of speech; it takes at"):
        await answers([STEP], speakers="auto", known_speakers=known)


async def test_without_the_option_nothing_is_called_or_said() -> None:
    found, components = await answers([STEP] * 26)
    assert not LABELLERS & set(components.calls)
    assert all("speaker" not in item.to_json() and "turns" not in item.to_json() for item in found)


async def test_silence_calls_nothing() -> None:
    found, components = await answers([STEP] * 10, audio("." * 10), speakers="auto")
    assert not LABELLERS & set(components.calls)
    assert found[-1].turns == ()


async def test_text_goes_on_where_the_networks_fail() -> None:
    async with streaming(adaptive=False, speakers="auto") as (client, components):
        components.speaker_embedding = None  # a call of it fails
        found = await client.send(SPOKEN, ends=True)
    assert len(found.segments) == 3
    assert [item.speaker for item in found.segments] == ["", "", ""]
