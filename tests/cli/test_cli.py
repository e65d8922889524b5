"""The command as a whole: help, versions, and what is meant by a wrong word."""

import importlib.metadata
import subprocess
import sys

import pytest
from refusals import Refused
from subprocesses import output_of

from conch import __version__
from conch.cli import main, version_text
from conch.packaged import install

HELPS = """
import argparse, sys
sys.modules["av"] = None
from conch.cli import build_parser

def print_helps(parser):
    parser.print_help()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                print_helps(command)

print_helps(build_parser())
"""
COMMANDS = (
    *("serve", "gateway", "transcribe", "bulk", "agree", "stream", "models", "graph", "demo"),
    *("bench offline", "bench live", "deploy haproxy"),
)


def test_every_command_has_a_help_without_pyav() -> None:
    said = output_of(sys.executable, "-c", HELPS)
    for command in COMMANDS:
        assert f"usage: conch {command} " in said


def test_a_command_names_the_extra_that_it_lacks(tmp_path) -> None:
    code = (
        "import sys; sys.modules['kaldifst'] = None; from conch.cli import main;"
        f"sys.exit(main(['graph', '--out', {str(tmp_path / 'en.fst')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"conch graph: needs kaldifst; {install('server')}\n"


LACKING = """
import sys
from types import ModuleType
from conch.cli import main

names = ("fsspec", "ray", "ray.data", "soxr")
for lacking in names:
    sys.modules.update({name: None if name == lacking else ModuleType(name) for name in names})
    assert main(["bulk", "nowhere", "--out", sys.argv[1]]) == 1
"""


def test_bulk_says_in_one_line_what_ray_data_lacks(tmp_path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", LACKING, str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    for lacking, line in zip(("fsspec", "ray", "ray.data", "soxr"), lines, strict=True):
        assert line.startswith(f"conch bulk: needs Ray Data: import of {lacking} halted")
        assert line.endswith(install("bulk"))
    assert not out.exists()


def test_the_pinned_wheel_is_known() -> None:
    assert version_text() == (
        f"conch {__version__}; Triton 2.51.0 (NVIDIA's release 24.10), from nvidia-pytriton 0.7.0"
    )


def test_another_wheel_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.9")
    assert version_text().endswith("Triton of unknown version, from nvidia-pytriton 9.9")


def test_a_missing_server_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(SystemExit) as exit:
        main(["--version"])
    assert exit.value.code == 0
    assert capsys.readouterr().out == (
        f"conch {__version__}; no Triton server is installed (nvidia-pytriton is missing)\n"
    )


@pytest.mark.parametrize(
    ("line", "problem", "hint"),
    [
        ("serve --http-prot 1", "conch serve: error: unrecognized", "did you mean --http-port?"),
        ("transcribe a.wav --beem-size=3", "conch transcribe: error:", "mean --beam-size?"),
        ("gateway keys add anna --stream 3 --x", "conch gateway keys add: error:", "add --help"),
        ("stream --diarize a.wav", "arguments: --diarize; conch stream --help lists all", ""),
        ("models get base --hlp", "arguments: --hlp", "did you mean --help?"),
        ("transcrib a.wav", "conch: error: no command 'transcrib'", "did you mean transcribe?"),
        ("models gett base", "conch models: error: no command 'gett'", "did you mean get?"),
        (
            "serve --model a=",
            "argument --model: [NAME=]MODEL, as fast=my_folder; got 'a='",
            "--help",
        ),
        ("serve --model =base", "argument --model: [NAME=]MODEL", "got '=base'"),
        ("xyz", "conch: error: no command 'xyz'; conch --help lists all", ""),
    ],
)
def test_an_unknown_flag_is_refused_with_the_closest_one(
    refused: Refused, line: str, problem: str, hint: str
) -> None:
    (told,) = refused(*line.split()).splitlines()
    assert problem in told and hint in told
