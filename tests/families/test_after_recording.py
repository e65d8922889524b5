"""Hooks over the whole recording: what they get, and where what they find goes."""

import json

import numpy as np
import plain_labels
import pytest
from plain_streams import audio

import conch.families
from conch.families import FAMILIES
from conch.recognition.offline.recording import WholeRecording
from conch.wire.options import RecognitionOptions
from conch.wire.parts import joined_parts
from conch.wire.result import Transcript
from tests.families.toy_speakers import FAMILY

ASKED = {"word_timestamps": True}
SPOKEN = audio("..11......55......11....")


@pytest.fixture
def speakers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conch.families, "FAMILIES", (*FAMILIES, FAMILY))


def answer(*channels: np.ndarray, streamed: bool, **options) -> list[Transcript]:
    """Return the parts of a streamed answer, or the only one."""
    file = plain_labels.file_of(np.stack(channels, axis=1))
    return plain_labels.answer(file, streamed=streamed, **options)[0]


def test_the_answer_has_what_the_hooks_have_made_of_the_segments(speakers):
    (found,) = answer(SPOKEN, streamed=False, **ASKED)
    assert found.text == "B: spoken 0.10 0 A: spoken 0.50 0 B: spoken 0.10 0"
    assert [turn["speaker"] for turn in found.extra["turns"]] == ["B", "A", "B"]
    starts = [item.start for item in found.segments]
    assert [turn["start"] for turn in found.extra["turns"]] == starts
    assert found.extra["texts"] == [item.text for item in found.segments], "one after the other"
    assert found.revised == ()
    assert Transcript.from_json(found.to_json()) == found


def test_the_last_part_of_a_streamed_answer_has_what_is_only_known_then(speakers):
    *parts, last = answer(SPOKEN, streamed=True, **ASKED)
    assert [part.text for part in parts] == ["spoken 0.10 0", "spoken 0.50 0", "spoken 0.10 0"]
    assert not any(part.extra or part.revised for part in parts)
    assert last.segments == ()
    assert [segment.text[:2] for segment in last.revised] == ["B:", "A:", "B:"]
    assert Transcript.from_json(last.to_json()) == last
    (whole,) = answer(SPOKEN, streamed=False, **ASKED)
    joined = joined_parts([*parts, last])
    assert (joined.text, joined.segments, joined.extra) == (whole.text, whole.segments, whole.extra)


def test_segments_that_no_hook_has_changed_are_not_sent_again(speakers):
    *_, last = answer(SPOKEN, streamed=True, lm_context=True, rescore=True)
    assert last.revised == ()
    assert len(last.extra["texts"]) == 3


@pytest.mark.parametrize("streamed", [False, True])
def test_each_channel_has_its_own_audio(speakers, streamed):
    channels = audio("..11.........55.."), audio(".......33........")
    *_, last = answer(*channels, streamed=streamed, **ASKED, channels="split")
    assert [(turn["channel"], turn["speaker"]) for turn in last.extra["turns"]] == [
        (1, "C"),
        (2, "B"),
        (1, "A"),
    ]


@pytest.mark.parametrize("streamed", [False, True])
def test_without_a_hook_that_is_asked_nothing_is_heard_and_the_json_is_as_ever(speakers, streamed):
    for options, hears in (({}, False), (ASKED, True)):
        whole = WholeRecording(RecognitionOptions.parse(options), None)
        assert (whole.next(0) is not None) == hears
        assert len(whole.analyses) == hears
    for part in answer(SPOKEN, streamed=streamed):
        assert part.extra is None
        assert not {"extra", "revised"} & {*json.loads(part.to_json())}
