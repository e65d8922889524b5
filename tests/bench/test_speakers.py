"""The diarization error rate against cases that are known, and against pyannote's."""

import numpy as np
import pytest

from conch.bench.speakers import SpeakerErrors, errors, read_rttm
from conch.wire.errors import BenchError
from conch.wire.result import Turn

REFERENCE = [Turn("x", 0, 10), Turn("y", 10, 15), Turn("y", 8, 9), Turn("x", 20, 21)]


def test_equal_turns_have_no_errors_whatever_the_names():
    result = [Turn({"x": "B", "y": "A"}[turn.speaker], turn.start, turn.end) for turn in REFERENCE]
    assert errors(REFERENCE, result).rate == 0


def test_each_kind_of_error():
    result = errors(REFERENCE, [Turn("A", 0, 7), Turn("B", 7, 16)])
    # The second speaker of 8 to 9 and all of 20 to 21 are missed; 15 to 16 is false; x is B's at
    # 7 to 10, of which 8 to 9 may count for y.
    assert (result.spoken_s, result.missed_s, result.false_s, result.confused_s) == (17, 2, 1, 2)
    assert result.rate == pytest.approx(5 / 17)
    assert (result + result).rate == result.rate


def test_nothing_has_no_errors():
    assert errors([], []).rate == 0


def test_it_is_pyannotes():
    core = pytest.importorskip("pyannote.core")
    metrics = pytest.importorskip("pyannote.metrics.diarization")

    def annotation(turns):
        result = core.Annotation()
        for index, turn in enumerate(turns):
            result[core.Segment(turn.start, turn.end), index] = turn.speaker
        return result.support()

    random = np.random.default_rng(1)

    def drawn(names):
        starts = np.cumsum(random.uniform(0.2, 3, 40))
        return [
            Turn(str(random.choice(names)), start, start + random.uniform(0.1, 4))
            for start in starts
        ]

    for collar_s in (0, 0, 0.25, 0.25):
        reference, result = drawn(["a", "b", "c"]), drawn(["x", "y", "z", "w"])
        rate = metrics.DiarizationErrorRate(collar=2 * collar_s)  # of both sides
        theirs = rate(annotation(reference), annotation(result))
        assert errors(reference, result, collar_s).rate == pytest.approx(theirs, abs=1e-6)


def test_a_collar_forgives_what_is_near_an_edge():
    result = [Turn("A", 0.2, 10.2)]
    assert errors([Turn("x", 0, 10)], result).rate == pytest.approx(0.04)
    assert errors([Turn("x", 0, 10)], result, 0.25) == SpeakerErrors(9.5, 0, 0, 0)


def test_rttm_is_read_by_recording():
    text = "SPEAKER a 1 0.5 2 <NA> <NA> x <NA> <NA>\n;; note\nSPEAKER b 1 0 1 <NA> <NA> y\n"
    assert read_rttm(text, "r") == {"a": [Turn("x", 0.5, 2.5)], "b": [Turn("y", 0, 1)]}
    with pytest.raises(BenchError, match=r"r, line 2 takes SPEAKER file .*; it has: SPEAKER a 1"):
        read_rttm("\nSPEAKER a 1 soon 2 <NA> <NA> x", "r")
