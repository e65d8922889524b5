"""Models of a user who has none."""

from pathlib import Path

import pytest

from conch.catalogue.models import home


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the user's models, which does not exist yet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert home() == tmp_path / "data" / "conch" / "models"
    return home()
