"""`conch --version` prints Conch's version and Triton's."""

import importlib.metadata

import pytest

from conch import __version__
from conch.cli import main, version_text


def test_the_pinned_wheel_is_known() -> None:
    assert version_text() == (
        f"conch {__version__}; Triton 2.51.0 (NVIDIA's release 24.10), from nvidia-pytriton 0.7.0"
    )


def test_another_wheel_is_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.9")
    assert version_text().endswith("Triton of unknown version, from nvidia-pytriton 9.9")


def test_a_missing_server_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(SystemExit) as exit:
        main(["--version"])
    assert exit.value.code == 0
    assert capsys.readouterr().out == (
        f"conch {__version__}; no Triton server is installed (nvidia-pytriton is missing)\n"
    )
