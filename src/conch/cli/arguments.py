"""Types of arguments that several commands take."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What the commands of a program are added to."""


def positive(text: str) -> int:
    """Return a whole number from 1 on, or tell argparse what is wrong with it."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number from 1 on; got {text!r}")
    return int(text)


def number(takes: str, is_taken: Callable[[float], bool]) -> Callable[[str], float]:
    """Return a type of numbers that `is_taken` is true of, which `takes` tells in words."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan  # in no range
        if not is_taken(value):
            raise argparse.ArgumentTypeError(f"{takes}; got {text!r}")
        return value

    return read


def output(text: str) -> Path:
    """Read the name of a file that can be written."""
    # Before a long measurement, not after it.
    path = Path(text)
    if not path.parent.is_dir() or path.is_dir():
        raise argparse.ArgumentTypeError(f"not a file in a folder that exists: {text!r}")
    return path
