"""The progress bar of a long measurement."""

import sys
from typing import Any

from tqdm import tqdm


def progress(title: str, total: int) -> "tqdm[Any]":
    """Return a progress bar on standard error, silent if that is not a terminal."""
    return tqdm(desc=title, total=total, unit="utt", file=sys.stderr, disable=None)
