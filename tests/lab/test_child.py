from pathlib import Path

import pytest

from lab import child

SLOW = """
import os, threading
from conch.cli.arguments import interrupt_on_sigterm

def work(folder, say):
    interrupt_on_sigterm()
    try:
        folder.mkdir()
        say({"session": os.getsid(0), "pid": os.getpid()})
        threading.Event().wait()
    finally:
        folder.rmdir()
"""


def test_a_child_that_is_left_early_ends_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_child.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(tmp_path))
    from slow_child import work  # type: ignore[import-not-found]

    folder = tmp_path / "made"
    with (
        pytest.raises(KeyError, match="early"),
        child.running(work, folder) as (process, messages, _),
    ):
        # The terminal's Ctrl-C goes to the parent's session.
        assert next(messages) == {"session": process.pid, "pid": process.pid}
        assert folder.is_dir()
        raise KeyError("early")
    assert process.exitcode
    assert not folder.exists()
