"""Every command explains itself without PyAV, which the server alone needs."""

import subprocess
import sys

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
COMMANDS = ("serve", "transcribe", "stream", "graph", "demo", "bench offline", "bench live")


def test_every_command_has_a_help_without_pyav() -> None:
    done = subprocess.run([sys.executable, "-c", HELPS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for command in COMMANDS:
        assert f"usage: conch {command} " in done.stdout
