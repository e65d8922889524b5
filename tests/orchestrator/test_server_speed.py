"""The speed of a server, as recordings show it."""

import pytest

from conch.orchestrator.server_speed import CROWD, FIRST_GUESS, PERIOD_S, ServerSpeed


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


def test_a_few_show_what_it_does_at_least():
    speed = ServerSpeed()
    serve(speed, FIRST_GUESS / 4, 5 * PERIOD_S, 0.0, 1)
    assert speed.audio_per_s == FIRST_GUESS
    serve(speed, 80.0, 5 * PERIOD_S, 100.0, CROWD - 1)
    assert speed.audio_per_s == pytest.approx(80.0, rel=0.1)


def test_pauses_do_not_count():
    speed = ServerSpeed()
    now = 0.0
    for _ in range(100):
        now = serve(speed, 60.0, 0.5, now, CROWD)
        speed.paused(now)
        now += 60.0
    assert speed.audio_per_s == pytest.approx(60.0, rel=0.05)
