"""The diarization error rate against cases that are known, and against pyannote's."""

import numpy as np
import pytest

from lab.speakers.turns import Turn, errors, naming, overlap_share

REFERENCE = [Turn("x", 0, 10), Turn("y", 10, 15), Turn("y", 8, 9), Turn("x", 20, 21)]


def test_equal_turns_have_no_errors_whatever_the_names():
    found = [Turn({"x": "B", "y": "A"}[turn.speaker], turn.start, turn.end) for turn in REFERENCE]
    assert errors(REFERENCE, found).rate == 0
    assert naming(REFERENCE, found) == {"B": "x", "A": "y"}


def test_each_kind_of_error():
    found = errors(REFERENCE, [Turn("A", 0, 7), Turn("B", 7, 16)])
    # The second speaker of 8 to 9 and all of 20 to 21 are missed; 15 to 16 is false; x is B's at
    # 7 to 10, of which 8 to 9 may count for y.
    assert (found.spoken_s, found.missed_s, found.false_s, found.confused_s) == (17, 2, 1, 2)
    assert found.rate == pytest.approx(5 / 17)
    assert (found + found).rate == found.rate


def test_overlap_is_a_share_of_the_speech():
    assert overlap_share(REFERENCE) == pytest.approx(1 / 16)
    assert errors([], []).rate == 0


def test_it_is_pyannotes():
    core = pytest.importorskip("pyannote.core")
    metrics = pytest.importorskip("pyannote.metrics.diarization")

    def annotation(turns):
        found = core.Annotation()
        for place, turn in enumerate(turns):
            found[core.Segment(turn.start, turn.end), place] = turn.speaker
        return found.support()

    random = np.random.default_rng(1)

    def drawn(names):
        starts = np.cumsum(random.uniform(0.2, 3, 40))
        return [
            Turn(str(random.choice(names)), start, start + random.uniform(0.1, 4))
            for start in starts
        ]

    for _ in range(5):
        reference, found = drawn(["a", "b", "c"]), drawn(["x", "y", "z", "w"])
        theirs = metrics.DiarizationErrorRate()(annotation(reference), annotation(found))
        assert errors(reference, found).rate == pytest.approx(theirs, abs=1e-6)
