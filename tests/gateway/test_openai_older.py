"""The tests of `openai` once more, with its package of a year ago, against the same gateways."""

import re
import sys
from pathlib import Path

import pytest
from programs import required
from subprocesses import output_of

HERE = Path(__file__).parent
VERSION = re.findall(r"^openai==(\S+)$", (HERE / "openai-older.txt").read_text(), re.MULTILINE)

pytestmark = [pytest.mark.server, pytest.mark.nightly, pytest.mark.timeout(400)]


@pytest.mark.parametrize("name", ["test_openai_files.py", "test_openai_realtime.py"])
def test_clients_of_a_year_ago(given_gateways, name):
    environment = {
        **given_gateways,
        "PYTHONPATH": required("openai-older"),
        "OPENAI_MEANT": VERSION[0],
    }
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--color=no"]
    command = (sys.executable, "-m", "pytest", *options, HERE / name)
    said = output_of(*command, timeout_s=400, cwd=HERE.parents[1], env=environment)
    assert "skipped" not in said
