"""Folders with random weights, of every kind, and frames."""

from pathlib import Path

import numpy as np
import pytest
import transducer_toys

from conch.families.transducer.folder import Transducer, read_transducer


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("transducers")
    kinds = ("zipformer2", "lstm", "conformer", "offline")
    return {kind: getattr(transducer_toys, kind)(folder / kind, seed=3) for kind in kinds}


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
