from pathlib import Path

import pytest

from conch.scoring.manifest import Utterance
from conch.wire.errors import BenchError
from lab.manifest.writing import write_manifest


def test_what_would_break_a_line_is_not_written(tmp_path: Path) -> None:
    for text in ("two\tfields", "two\nlines", "two\u2028lines"):
        with pytest.raises(BenchError, match="a tab or a line break is in a field"):
            write_manifest(tmp_path / "m.tsv", [Utterance(tmp_path / "a.mp3", text)])
    assert not (tmp_path / "m.tsv").exists()
