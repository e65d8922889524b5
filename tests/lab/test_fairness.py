"""The figures of a crowd, and of a short recording during a long one."""

import io

import numpy as np
import pytest
import soundfile

from conch.bench.figures import Latency
from conch.wire.errors import ComponentError, OverloadedError
from lab.fairness import During, crowd_of, speech_of


def test_the_waits_of_a_crowd_are_told_apart():
    outcomes = [(10.0, "a text"), (20.0, "a text"), (60.0, "another"), (0.05, OverloadedError("x"))]
    late = [(0.1, OverloadedError("z")), (30.0, "a text")]
    crowd = crowd_of([*outcomes, (1.0, ComponentError("y"))], late, seconds=10, wall_s=60.0)
    assert crowd.late_refusal.p50 == 100
    assert (crowd.accepted, crowd.refused, crowd.failed, crowd.wrong) == (3, 1, 1, 1)
    assert (crowd.wait.p50, crowd.refusal.p50) == (20_000, 50)
    assert crowd.rtfx == 0.5


def test_a_crowd_of_refusals_has_no_wait():
    crowd = crowd_of([(0.1, OverloadedError("x"))], [], seconds=10, wall_s=0.1)
    assert (crowd.accepted, crowd.wrong, crowd.wait.p50, crowd.rtfx) == (0, 0, None, None)


@pytest.mark.parametrize(("during", "ratio"), [(Latency(p50=300.0), 1.5), (Latency(), None)])
def test_the_ratio_is_that_of_the_medians(during, ratio):
    alone = Latency(p50=200.0)
    assert During(alone=alone, during=during, sent_during=1, long_s=9.0).ratio == ratio


def test_recordings_are_as_long_as_they_should_be():
    samples, rate = soundfile.read(io.BytesIO(speech_of(10)))
    assert len(samples) == 10 * rate
    assert np.abs(samples[8 * rate :]).max() > 0.1
