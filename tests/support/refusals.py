"""What commands say of wrong usage."""

from collections.abc import Callable

import pytest

from conch.cli import main

Refused = Callable[..., str]
"""Runs `conch` with wrong arguments; returns what it says."""


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    def refused(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*arguments])
        assert ended.value.code == 2
        return capsys.readouterr().err

    return refused
