"""Token buckets against a clock that the test moves."""

import pytest

from conch.gateway.limits import Bucket


def test_a_bucket_without_a_limit_never_waits() -> None:
    bucket = Bucket(0, now=0.0)
    bucket.take(1e9, now=0.0)
    assert bucket.wait_s(1e9, now=0.0) == 0


def test_a_minutes_share_is_there_at_once_and_comes_back_steadily() -> None:
    bucket = Bucket(60, now=100.0)
    for _ in range(60):
        assert bucket.wait_s(1, now=100.0) == 0
        bucket.take(1, now=100.0)
    assert bucket.wait_s(1, now=100.0) == pytest.approx(1.0)
    assert bucket.wait_s(1, now=100.5) == pytest.approx(0.5)
    assert bucket.wait_s(1, now=101.0) == 0


def test_a_long_file_overdraws_and_is_paid_back_by_waiting() -> None:
    bucket = Bucket(600, now=0.0)
    bucket.take(3600, now=0.0)
    assert bucket.wait_s(1, now=0.0) == pytest.approx(300.1)
    assert bucket.wait_s(1, now=301.0) == 0


def test_more_than_a_minutes_share_is_not_waited_for_for_ever() -> None:
    bucket = Bucket(10, now=0.0)
    assert bucket.wait_s(50, now=0.0) == 0


def test_an_idle_bucket_does_not_save_more_than_a_minute() -> None:
    bucket = Bucket(2, now=0.0)
    bucket.take(2, now=1_000.0)
    assert bucket.wait_s(1, now=1_000.0) == pytest.approx(30.0)
