"""`conch voices fit`, `stop` and `remove`."""

import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from own_gateway import OwnGateway
from plain_voices import PlainServer, voice_gateway

from conch.cli import main
from conch.cli.fit import lines_of, summary
from conch.fitted_voices import FittedVoice, StoredVoice, file_of

READY = FittedVoice(
    name="Ann",
    status="ready",
    mix="af_sky:1.00",
    similarity=0.571,
    start_similarity=0.139,
    wer=1.3,
    curve=((0, 0.139), (20, 0.571)),
)


def voices(*arguments: str, at: str = "") -> int:
    return main(["voices", *arguments, *(["--url", at] if at else [])])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    paths = [tmp_path / f"{number}.wav" for number in range(3)]
    for path in paths:
        path.write_bytes(b"RIFF")
    return [*map(str, paths)]


@pytest.fixture
def gateway() -> Iterator[tuple[OwnGateway, PlainServer]]:
    with voice_gateway() as running:
        yield running


def test_a_voice_is_fitted_and_shown(gateway, files, capsys, monkeypatch) -> None:
    running, server = gateway

    async def at_once(name: str) -> FittedVoice:
        return replace(READY, warnings=("2.wav: it is dull",))

    monkeypatch.setattr(server, "fitted_voice", at_once)
    assert voices("fit", "Ann", *files, "--minutes", "7", at=running.url) == 0
    ((name, sent, minutes, consent),) = server.asked
    assert (name, [title for title, _ in sent], minutes, consent) == (
        *("Ann", ["0.wav", "1.wav", "2.wav"], 7, None),
    )
    shown = capsys.readouterr()
    speaks = f'conch say --url {running.url} --voice "Ann" speaks with it'
    assert shown.out == f"similarity 0.57 (was 0.14), WER 1.3 %; {speaks}\n"
    assert "conch: 2.wav: it is dull" in shown.err


def test_a_voice_that_fails_says_why(gateway, files, capsys, monkeypatch) -> None:
    running, server = gateway

    async def failed(name: str) -> FittedVoice:
        return replace(READY, status="failed", error="a component is away")

    monkeypatch.setattr(server, "fitted_voice", failed)
    assert voices("fit", "Ann", *files, at=running.url) == 1
    assert "the voice Ann could not be fitted: a component is away" in capsys.readouterr().err


def test_ctrl_c_ends_the_work_and_keeps_the_voice(gateway, files, capsys, monkeypatch) -> None:
    running, _server = gateway

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("conch.cli.fit.time.sleep", interrupted)
    assert voices("fit", "Ann", *files, at=running.url) == 0
    assert "ending the work" in capsys.readouterr().err


def test_stop_and_remove(gateway, files, capsys) -> None:
    running, server = gateway
    server.voices["Ann"] = replace(READY, status="fitting")
    assert voices("stop", "Ann", at=running.url) == 0
    assert server.voices["Ann"].status == "ready"
    assert voices("remove", "Ann", at=running.url) == 0
    assert server.voices == {}
    assert voices("remove", "Ann", at=running.url) == 1
    assert "there is no fitted voice 'Ann'" in capsys.readouterr().err


def test_a_voice_of_this_machine_is_listed_and_removed(home: Path, capsys) -> None:
    StoredVoice(shown=READY, pitch=1.0, start=b"", timbre=b"").keep()
    assert stat.S_IMODE(file_of("Ann").stat().st_mode) == 0o600
    assert main(["voices"]) == 0
    listed = capsys.readouterr().out.splitlines()[0]
    assert listed == "Ann          fitted similarity 0.57 (was 0.14), WER 1.3 %"
    assert voices("remove", "Ann") == 0
    assert not file_of("Ann").exists()
    assert voices("remove", "Ann") == 1
    assert "Ann is no fitted voice; there are: none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fit", "a,b", "x.wav"), "takes 1 to 60 letters"),
        (("fit", "Ann", __file__, "--minutes", "0"), "a whole number from 1 to 120"),
        (("fit", "Ann", "x.wav"), "argument FILE: a file that exists; got 'x.wav'"),
        (("fit", "Ann", __file__, "--consent", "x.wav"), "--consent: a file that exists; got"),
        (("fit", "Ann"), "FILE"),
        (("stop", "Ann"), "stop takes the --url of the server"),
    ],
)
def test_wrong_usage(arguments, said: str, capsys) -> None:
    try:
        status: object = main(["voices", *arguments])
    except SystemExit as error:
        status = error.code
    assert status == 2
    assert said in capsys.readouterr().err


def test_what_is_said_of_a_voice() -> None:
    waiting = FittedVoice(name="Ben")
    assert summary(waiting) == "waits for its turn"
    assert summary(replace(waiting, status="fitting")) == "begins"
    working = replace(READY, status="fitting", wer=None, seconds_left=150)
    assert summary(working) == "similarity 0.57 (was 0.14), 2.5 min left"
    failed = replace(waiting, status="failed", error="it fails")
    assert [*lines_of([failed])] == ["Ben          fitted it fails"]
