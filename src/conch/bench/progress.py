"""How far a long measurement is."""

import sys
from typing import Any

from tqdm import tqdm


def progress(title: str, total: int) -> "tqdm[Any]":
    """Return a progress bar on standard error; none where that is not a terminal."""
    return tqdm(desc=title, total=total, unit="utt", file=sys.stderr, disable=None)
