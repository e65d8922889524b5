"""Token buckets against a clock that the test moves."""

from pathlib import Path

import psutil
import pytest
from clock import Clock

from conch.gateway.errors import ApiError
from conch.gateway.limits import Bucket, Room, memory_of_container


def test_a_bucket_without_a_limit_never_waits() -> None:
    bucket = Bucket(0, Clock())
    bucket.take(1e9)
    assert bucket.wait_s(1e9) == 0


def test_a_minutes_share_is_there_at_once_and_comes_back_steadily() -> None:
    bucket = Bucket(60, clock := Clock())
    for _ in range(60):
        assert bucket.wait_s(1) == 0
        bucket.take(1)
    assert bucket.wait_s(1) == pytest.approx(1.0)
    clock.now = 0.5
    assert bucket.wait_s(1) == pytest.approx(0.5)
    clock.now = 1.0
    assert bucket.wait_s(1) == 0


def test_a_long_file_overdraws_and_is_paid_back_by_waiting() -> None:
    bucket = Bucket(600, clock := Clock())
    bucket.take(3600)
    assert bucket.wait_s(1) == pytest.approx(300.1)
    clock.now = 301.0
    assert bucket.wait_s(1) == 0


def test_more_than_a_minutes_share_is_not_waited_for_for_ever() -> None:
    assert Bucket(10, Clock()).wait_s(50) == 0


def test_an_idle_bucket_does_not_save_more_than_a_minute() -> None:
    bucket = Bucket(2, clock := Clock())
    clock.now = 1_000.0
    bucket.take(2)
    assert bucket.wait_s(1) == pytest.approx(30.0)


def test_room_is_taken_before_and_given_back() -> None:
    room = Room(100)
    with room.taken(60) as keep:
        with pytest.raises(ApiError, match="this gateway holds 0 MB") as refused:
            room.taken(41).__enter__()
        assert (refused.value.status, refused.value.headers["Retry-After"]) == (503, "2")
        keep(20)
        with room.taken(80):
            pass
        with pytest.raises(ApiError):
            room.taken(81).__enter__()
    with room.taken(100):
        pass


@pytest.mark.parametrize(
    ("file", "text", "is_limit"),
    [
        ("memory.max", "536870912\n", True),
        ("memory.max", "max\n", False),
        ("memory/memory.limit_in_bytes", "536870912\n", True),
        ("memory/memory.limit_in_bytes", "9223372036854771712\n", False),
        ("other", "1", False),
    ],
)
def test_the_memory_is_that_of_the_container(
    tmp_path: Path, file: str, text: str, is_limit: bool
) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / file).write_text(text)
    assert memory_of_container(tmp_path) == (
        536_870_912 if is_limit else psutil.virtual_memory().total
    )
