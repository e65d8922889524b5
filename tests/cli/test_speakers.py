"""`conch speakers add`: what files may hold; and the flag of enrolled voices."""

import argparse
from pathlib import Path

import numpy as np
import pytest

from conch.cli import main
from conch.cli.option_flags import add_option_flags, given_options
from conch.cli.speakers import _alone, _sounds
from conch.client.speakers import EnrolledVoice, keep
from conch.wire.errors import ConchError
from conch.wire.known_speakers import VOICE_MODEL, embedding_text, known_speakers_of
from conch.wire.result import Speaker


def speaker(seconds: float, *numbers: float) -> Speaker:
    return Speaker("A", seconds, embedding_text(np.array(numbers, np.float32)))


def test_a_file_has_one_voice_and_enough_of_it() -> None:
    main, little = speaker(12.0, 1), speaker(1.4, 1)
    assert _alone("a.wav", [little, main]) is main
    with pytest.raises(ConchError, match=r"a.wav has 2 voices \(12.0 s, 1.5 s\)"):
        _alone("a.wav", [speaker(1.5, 1), main])
    for voices, seconds in (([], "0.0"), ([speaker(1.1, 1)], "1.1")):
        with pytest.raises(ConchError, match=f"{seconds} s of speech; at least 1.2 s"):
            _alone("a.wav", voices)


def test_all_files_are_of_one_person() -> None:
    heard = [speaker(2.0, 1, 0), speaker(3.0, 0.8, 0.6)]
    first, second = _sounds(["a", "b"], heard)
    np.testing.assert_allclose(first, [2.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(second, [2.4, 1.8], atol=1e-6)
    with pytest.raises(ConchError, match=r"b sounds like somebody else than a: cosine 0\.00"):
        _sounds(["a", "b"], [speaker(2.0, 1, 0), speaker(3.0, 0, 1)])


def test_enrolled_voices_go_with_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for name in ("Ann", "Ben"):
        text = embedding_text(np.ones(2, np.float32))
        keep(EnrolledVoice(name=name, embedding=text, model=VOICE_MODEL, seconds=9, added="today"))
    parser = argparse.ArgumentParser()
    add_option_flags(parser)

    def options(*words: str) -> dict[str, object]:
        return given_options(parser.parse_args(words))

    assert options() == {}
    for words, names in (("all", ["Ann", "Ben"]), ("Ben", ["Ben"]), ("Ben, Ann", ["Ben", "Ann"])):
        result = options("--known-speakers", words)
        assert result["speakers"] == "auto"
        assert [item.name for item in known_speakers_of(str(result["known_speakers"]))] == names
    assert options("--known-speakers", "all", "--speakers", "3")["speakers"] == "3"
    with pytest.raises(SystemExit):
        options("--known-speakers", "Eve")
    assert "'Eve' is not enrolled; enrolled: Ann, Ben" in capsys.readouterr().err


def test_an_empty_list_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert main(["speakers", "list"]) == 0
    assert capsys.readouterr().out.startswith("nobody is enrolled: conch speakers add")
