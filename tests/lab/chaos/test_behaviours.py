"""Which answers to an honest visit are the one that it got before."""

from dataclasses import replace
from typing import Any

import pytest

from conch.gateway.doors import DEEPGRAM_LISTEN, LISTEN, Door
from lab.chaos.answers import Answer
from lab.chaos.visits.behaviours import Learned

ALONE = Answer("1000", is_gateway=True, said="Tiger tiger burning bright")


def is_given_again(answer: Answer, door: Door = DEEPGRAM_LISTEN) -> bool:
    return Learned(door, ALONE, {}).is_given_again(answer)


@pytest.mark.parametrize("said", ["tiger tiger burning bright", "Tiger, tiger burning, brig."])
def test_a_word_in_four_may_differ_where_second_passes_are_left_out(said: str) -> None:
    assert is_given_again(replace(ALONE, said=said))
    assert not is_given_again(replace(ALONE, said=said), LISTEN)


@pytest.mark.parametrize(
    "changes",
    [
        {"said": "tiger tiger"},
        {"said": "tiger tigers burning brig"},
        {"said": ""},
        {"status": "1011"},
        {"text": "overloaded"},
    ],
)
def test_all_else_is_another_answer(changes: dict[str, Any]) -> None:
    assert is_given_again(ALONE) and is_given_again(ALONE, LISTEN)
    assert not is_given_again(replace(ALONE, **changes))
