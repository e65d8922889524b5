"""The states of a live stream, step by step, without a component."""

from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest

from conch.recognition.live.state import NO_STEP, LiveStep, LiveUtterance, Waiting
from conch.recognition.speech import NOTHING_DECODED, Decoded, SpeechProbs
from conch.wire.result import Hypothesis, Word

FRAME = 512
GOOD = (Word("good", 0.1, 0.4, 0.9),)
DAY = (*GOOD, Word("day", 0.4, 0.8, 0.8))


def step(level: float, frames: int = 2) -> LiveStep:
    """Samples of one level, and frames in which somebody speaks with that probability."""
    probs = SpeechProbs(np.full(frames, level, np.float32), FRAME)
    return LiveStep(np.full(frames * FRAME, level, np.float32), probs)


def decoded(words: tuple[Word, ...], stable: str = "", score: float = 0.0) -> Decoded:
    text = " ".join(word.text for word in words)
    return Decoded([Hypothesis(text, score, score)], {text: words}, stable)


def test_what_holds_while_nobody_speaks_does_not_exist_while_somebody_does():
    waiting, speaking = ({item.name for item in fields(kind)} for kind in (Waiting, LiveUtterance))
    assert not waiting & speaking
    with pytest.raises(FrozenInstanceError):
        Waiting().pre_roll = step(0.0)


def test_a_stream_begins_in_silence():
    assert Waiting() == Waiting(pre_roll=NO_STEP)
    assert len(NO_STEP.waveform) == len(NO_STEP.speech.probs) == 0


def test_steps_are_joined_with_their_frames():
    both = step(0.1).followed_by(step(0.9, frames=1))
    assert both.waveform.tolist() == pytest.approx([0.1] * 2 * FRAME + [0.9] * FRAME)
    assert both.speech.probs.tolist() == pytest.approx([0.1, 0.1, 0.9])
    assert both.speech.frame_samples == FRAME
    nothing_first = NO_STEP.followed_by(step(0.9))
    assert nothing_first.waveform.tolist() == step(0.9).waveform.tolist()


def test_of_silence_the_latest_step_alone_is_kept_and_not_the_chunk_around_it():
    chunk = np.concatenate([step(0.0).waveform, step(0.2).waveform])
    silent = LiveStep(chunk[: 2 * FRAME], step(0.0).speech)
    waiting = Waiting().after_silence(step(0.1)).after_silence(silent)
    assert waiting.pre_roll.waveform.tolist() == [0.0] * 2 * FRAME
    assert waiting.pre_roll.waveform.base is None
    assert silent.waveform.base is chunk


def test_an_utterance_begins_without_a_text():
    utterance = LiveUtterance(start=512)
    assert (utterance.words, utterance.text, utterance.score) == ((), "", 0.0)
    assert utterance.with_text(NOTHING_DECODED) == utterance


def test_what_is_found_replaces_the_text_and_keeps_the_audio():
    found = LiveUtterance(512).with_step(step(0.5)).with_text(decoded(GOOD, score=-1.0))
    found = found.with_step(step(0.6)).with_text(decoded(DAY, "good", -2.0))
    assert (found.start, found.words, found.num_stable, found.score) == (512, DAY, 1, -2.0)
    assert [float(item.waveform[0]) for item in found.steps] == pytest.approx([0.5, 0.6])


def test_an_utterance_is_not_changed_by_what_follows_it():
    before = LiveUtterance(512)
    before.with_step(step(0.5)).with_text(decoded(GOOD))
    assert before == LiveUtterance(512)


@pytest.mark.parametrize(
    ("words", "num_stable"), [(DAY, 2), ((*DAY, *GOOD), 2), (GOOD, 0), (DAY[::-1], 0)]
)
def test_what_was_stable_stays_so_while_the_text_begins_with_it(words, num_stable):
    stable = LiveUtterance(0).with_text(decoded(DAY, "good day"))
    assert stable.with_text(decoded(words)).num_stable == num_stable


def test_behind_firm_words_is_the_audio_that_they_do_not_reach():
    probs = SpeechProbs(np.ones(16, np.float32), FRAME)
    steps = tuple(LiveStep(np.full(8_000, level, np.float32), probs) for level in (0.1, 0.2, 0.3))
    words = tuple(Word(str(at), at, at + 0.25, 0.9) for at in (1.0, 1.5, 2.0))
    utterance = LiveUtterance(16_000, words, num_stable=2, score=-3.0, steps=steps)
    firm, left = utterance.after_firm()
    assert firm == words[:2]
    assert (left.start, left.words, left.num_stable, left.score) == (24_000, (), 0, 0.0)
    assert [len(step.waveform) for step in left.steps] == [8_000, 8_000]
    assert np.flatnonzero(left.steps[0].waveform).tolist() == list(range(4_000, 8_000))
    assert left.steps[1] is steps[2]
    assert steps[1].waveform.all(), "what others hold has not changed"


def test_without_firm_words_all_of_an_utterance_is_left():
    utterance = LiveUtterance(16_000, GOOD, steps=(step(1.0),))
    assert utterance.after_firm() == ((), utterance)


def test_firm_words_up_to_the_end_leave_no_audio():
    whole = LiveStep(np.ones(6_400, np.float32), step(1.0).speech)
    utterance = LiveUtterance(0, GOOD, num_stable=1, steps=(whole,))
    assert utterance.after_firm() == (GOOD, LiveUtterance(6_400))


def test_of_an_utterance_the_steps_are_taken_that_reach_beyond_a_sample():
    steps = (step(0.1), step(0.2), step(0.3))  # of 1024 samples
    utterance = LiveUtterance(512, steps=steps)
    expected = {0: (512, 3), 1535: (512, 3), 1536: (1536, 2), 3583: (2560, 1), 3584: (3584, 0)}
    found = {sample: utterance.steps_after(sample) for sample in expected}
    assert {sample: (start, len(left)) for sample, (start, left) in found.items()} == expected
    assert found[1536][1] == list(steps[1:])
    assert utterance.steps == steps
