"""Folders with random weights, of every kind."""

from pathlib import Path

import pytest
import transducer_toys


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("transducers")
    kinds = ("zipformer2", "lstm", "conformer", "offline")
    return {kind: getattr(transducer_toys, kind)(folder / kind, seed=3) for kind in kinds}
