"""Types of arguments that several commands take."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The group of a parser that commands are added to."""


def positive(text: str) -> int:
    """Return a whole number from 1.

    Raises:
        argparse.ArgumentTypeError: the text is not one.
    """
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number from 1; got {text!r}")
    return int(text)


def number(takes: str, is_taken: Callable[[float], bool]) -> Callable[[str], float]:
    """Return an argument type for a range of numbers.

    Args:
        takes: the range in words, for errors.
        is_taken: whether a number is in it.
    """

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
    """Return the name of a file that can be written.

    Raises:
        argparse.ArgumentTypeError: it is a folder, or its folder does not exist.
    """
    # Check this before a long measurement, not after it.
    path = Path(text)
    if not path.parent.is_dir() or path.is_dir():
        raise argparse.ArgumentTypeError(f"not a file in a folder that exists: {text!r}")
    return path
