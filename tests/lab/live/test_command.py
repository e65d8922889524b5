import sys
from pathlib import Path

import pytest

from lab.__main__ import main


def test_a_picture_that_cannot_be_drawn_is_said_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    plot = str(tmp_path / "live.png")
    assert main(["live", "--manifest", "none.tsv", "--plot", plot]) == 1
    error = capsys.readouterr().err
    assert error.startswith("lab live: this benchmark needs matplotlib: ")
    assert "[lab]" in error
