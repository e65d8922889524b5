"""Enrolled voices: files that nobody else reads."""

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from conch.cli import main
from conch.client.speakers import (
    EnrolledVoice,
    enrolled_voices,
    keep,
    known_speakers,
    speakers_home,
)
from conch.wire.errors import ConfigError
from conch.wire.known_speakers import VOICE_MODEL, embedding_text, known_speakers_of, option_of


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path


def voice(name: str, *numbers: float, model: str = VOICE_MODEL) -> EnrolledVoice:
    text = embedding_text(np.array(numbers, np.float32))
    return EnrolledVoice(name=name, embedding=text, model=model, seconds=9.5, added="2026-01-31")


def test_files_are_for_their_owner_alone(home: Path) -> None:
    umask = os.umask(0)
    try:
        speakers_home().mkdir(mode=0o777, parents=True)
        path = keep(voice("Ann", 1, 2))
    finally:
        os.umask(umask)
    assert path == home / "conch" / "speakers" / "Ann.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [item.name for item in path.parent.iterdir()] == ["Ann.json"]


def test_voices_are_the_option_of_a_request() -> None:
    assert enrolled_voices() == known_speakers() == []
    keep(voice("Ben Lee", 0, 2))
    keep(voice("Ann", 1, 0))
    keep(voice("Ann", 3, 4))
    assert [item.name for item in enrolled_voices()] == ["Ann", "Ben Lee"]
    ann, _ = known_speakers_of(option_of(known_speakers()))
    np.testing.assert_allclose(np.array(ann.embedding), [0.6, 0.8], atol=1e-6)
    assert [item["name"] for item in known_speakers(["Ben Lee"])] == ["Ben Lee"]
    with pytest.raises(
        ConfigError, match="'Eve' is not enrolled; enrolled: Ann, Ben Lee; conch speakers"
    ):
        known_speakers(["Eve"])


@pytest.mark.parametrize("name", ["", ".", "../Ann", "a/b", ".hidden", " Ann", "A\nB", "A" * 61])
def test_a_name_is_that_of_a_file(name: str, home: Path) -> None:
    with pytest.raises(ConfigError, match="name"):
        keep(voice(name, 1))
    assert not speakers_home().exists()


def test_a_damaged_file_is_named() -> None:
    keep(voice("Ann", 1)).write_text("{}")
    with pytest.raises(ConfigError, match=r"Ann\.json cannot be read"):
        enrolled_voices()


def test_they_are_listed_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    keep(voice("Ann", 1))
    assert main(["speakers", "list"]) == 0
    assert capsys.readouterr().out == "Ann  10 s  2026-01-31\n"
    assert main(["speakers", "remove", "Ann"]) == 0
    assert enrolled_voices() == []
    assert main(["speakers", "remove", "Ann"]) == 1
    assert "'Ann' is not enrolled; enrolled: nobody" in capsys.readouterr().err
