"""Types of arguments that several commands take."""

import argparse


def positive(text: str) -> int:
    """Return a whole number from 1 on, or tell argparse what is wrong with it."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number from 1 on; got {text!r}")
    return int(text)
