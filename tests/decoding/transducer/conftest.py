"""Toy decoders and joiners, and frames for them."""

from pathlib import Path

import numpy as np
import pytest
import transducer_toys

from conch.catalogue.transducers import Transducer, read_transducer


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return transducer_toys.lstm(tmp_path_factory.mktemp("transducer") / "toy", seed=5)


@pytest.fixture(scope="session")
def toy(folder: Path) -> Transducer:
    return read_transducer(folder)


@pytest.fixture
def frames() -> list[np.ndarray]:
    random = np.random.default_rng(1)
    sizes = (0, 1, 30, 55, 8)
    return [np.tanh(random.normal(0, 1.5, (size, 32))).astype(np.float32) for size in sizes]
