"""The speed of a server, as recordings show it."""

import pytest

from conch.bls.admission import CROWD, FIRST_GUESS, PERIOD_S, ServerSpeed


def serve(speed: ServerSpeed, rate: float, seconds: float, now: float, in_flight: int) -> float:
    """Serve audio in steps of a tenth of a second; return the time afterwards."""
    speed.began(now)
    for _ in range(round(seconds * 10)):
        now += 0.1
        speed.served(rate / 10, in_flight, now)
    return now


def test_a_crowd_shows_the_speed():
    speed = ServerSpeed()
    serve(speed, 50.0, 20 * PERIOD_S, 0.0, CROWD)
    assert speed.audio_per_s == pytest.approx(50.0, rel=0.05)
    serve(speed, 5.0, 20 * PERIOD_S, 1000.0, 3 * CROWD)
    assert speed.audio_per_s == pytest.approx(5.0, rel=0.1)
    assert speed.seconds_for(10.0) == pytest.approx(2.0, rel=0.1)


def test_a_few_show_rather_what_it_does_at_least():
    speed = ServerSpeed()
    serve(speed, FIRST_GUESS / 4, 3.5 * PERIOD_S, 0.0, 1)
    assert FIRST_GUESS * 0.9 < speed.audio_per_s < FIRST_GUESS
    serve(speed, 80.0, 10 * PERIOD_S, 100.0, CROWD - 1)
    assert speed.audio_per_s == pytest.approx(80.0, rel=0.1)


def test_segments_that_are_done_at_once_are_no_speed():
    """A long recording gives a text of 120 s every 12 s."""
    speed = ServerSpeed()
    speed.began(0.0)
    found = []
    for now in range(12, 1200, 12):
        for _ in range(4):
            speed.served(30.0, 1, float(now))
        found.append(speed.audio_per_s)
    assert found[-1] == pytest.approx(10.0, rel=0.3)
    assert max(found) <= FIRST_GUESS


def test_pauses_do_not_count():
    speed = ServerSpeed()
    now = 0.0
    for _ in range(100):
        now = serve(speed, 60.0, 0.5, now, CROWD)
        speed.paused(now)
        now += 60.0
    assert speed.audio_per_s == pytest.approx(60.0, rel=0.05)
