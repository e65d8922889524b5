"""Every command explains itself without PyAV, and says which extra it lacks."""

import subprocess
import sys

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
    "serve",
    "gateway",
    "transcribe",
    "bulk",
    "agree",
    "stream",
    "models",
    "graph",
    "demo",
    "bench offline",
    "bench live",
    "deploy haproxy",
)


def test_every_command_has_a_help_without_pyav() -> None:
    done = subprocess.run([sys.executable, "-c", HELPS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for command in COMMANDS:
        assert f"usage: conch {command} " in done.stdout


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
