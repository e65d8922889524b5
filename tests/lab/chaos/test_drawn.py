"""What is drawn: the same for the same seed, of every kind, and sendable."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conch.wire.errors import OptionError
from conch.wire.options import RecognitionOptions
from lab.chaos.doors import DOORS
from lab.chaos.doors.audio_files import Damage
from lab.chaos.drawn import drawn, has_rows, options
from lab.chaos.speech import files

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("door", DOORS)
def test_a_seed_tells_what_is_sent(door):
    once, again, other = (drawn(DOORS[door], 20, seed) for seed in (3, 3, 4))
    assert repr(once) == repr(again) != repr(other)
    assert len(once) == 20


def test_what_is_sent_does_not_depend_on_the_program_that_draws_it():
    doors = ["HTTP, JSON", "live chunks"]
    program = "from lab.chaos.doors import DOORS; from lab.chaos.drawn import drawn; "
    program += f"print([drawn(DOORS[door], 20, 3) for door in {doors}])"
    command = [sys.executable, "-c", f"import conch.gateway.openapi; {program}"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == repr([drawn(DOORS[door], 20, 3) for door in doors])


def test_options_are_good_and_bad_ones():
    refused = set()
    for sent in drawn(options(), 100, 1):
        try:
            RecognitionOptions.parse(sent)
            refused.add(False)
        except OptionError:
            refused.add(True)
    assert refused == {True, False}


def test_json_calls_are_whole_and_damaged():
    def is_whole(body: bytes) -> bool:
        try:
            return isinstance(json.loads(body), dict)
        except ValueError:
            return False

    assert {is_whole(call.body) for call in drawn(DOORS["HTTP, JSON"], 100, 1)} == {True, False}


def test_what_triton_never_answers_is_not_sent():
    assert not has_rows([0, 0])
    assert has_rows([0, 5]) and has_rows([1, 0]) and has_rows([0]) and has_rows("text")


def test_a_damaged_file_is_the_same_each_time():
    whole = files()["wav"]
    assert Damage("wav").data() == whole
    assert Damage("wav", cut=0.5).data() == whole[: round(len(whole) / 2)]
    flipped = Damage("wav", flips=3, number=7)
    assert flipped.data() == flipped.data() != whole
    assert Damage("wav", head="flac").data()[:64] == files()["flac"][:64]
    assert Damage("wav", cut=0, flips=5).data() == b""
