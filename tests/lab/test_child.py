from pathlib import Path

import pytest

from lab import child

ROOT = Path(__file__).parents[2]

SLOW = """
import os, pathlib, threading
from lab import child
from conch.cli.arguments import interrupt_on_sigterm

folder = pathlib.Path(child.job()["folder"])
interrupt_on_sigterm()
try:
    folder.mkdir()
    child.say(session=os.getsid(0), pid=os.getpid())
    threading.Event().wait()
finally:
    folder.rmdir()
"""


def test_a_child_that_is_left_early_ends_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_child.py").write_text(SLOW)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    folder = tmp_path / "made"
    with (
        pytest.raises(KeyError, match="early"),
        child.running("slow_child", {"folder": str(folder)}) as (process, messages, _),
    ):
        # The terminal's Ctrl-C goes to the parent's session.
        assert next(messages) == {"session": process.pid, "pid": process.pid}
        assert folder.is_dir()
        raise KeyError("early")
    assert process.returncode
    assert not folder.exists()
