"""`conch.triton` on a Triton made of plain Python."""

import logging
import sys
from collections.abc import Iterator

import plain_triton
import pytest

# Before any test imports conch.triton; in this process only, which no server's is.
sys.modules["triton_python_backend_utils"] = plain_triton


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """Undo what a model does to the log of its process."""
    logger = logging.getLogger("conch")
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.fixture
def models() -> Iterator[dict]:
    """The component models that the fake Triton has loaded: name → function of a request."""
    yield plain_triton.models
    plain_triton.models.clear()
