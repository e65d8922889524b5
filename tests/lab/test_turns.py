import pytest

from conch.bench.load import Offer
from lab.turns import requests_of, rotated


def test_everyone_is_first_and_last_in_turn() -> None:
    turns = [rotated(["a", "b", "c"], number) for number in range(-1, 3)]
    assert ["".join(turn) for turn in turns] == ["cab", "abc", "bca", "cab"]


@pytest.mark.parametrize(
    ("offered", "requests"),
    [
        (Offer(concurrency=1), 6),
        (Offer(concurrency=8), 32),
        (Offer(rate=2.0), 6),
    ],
)
def test_a_closed_loop_gives_each_client_several_turns(offered: Offer, requests: int) -> None:
    assert requests_of(offered, 6) == requests
