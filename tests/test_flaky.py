"""The command that finds tests whose outcome differs from run to run."""

import os
import subprocess
import sys

import pytest
from project_scripts import script

TESTS = """
from pathlib import Path
import pytest

def test_steady():
    pass

@pytest.mark.skip
def test_skipped():
    pass

def test_every_other_time():
    count = Path(__file__).with_name("count")
    before = count.read_text() if count.exists() else ""
    count.write_text(before + ".")
    assert len(before) % 2 == 0
"""


def test_the_outcomes_that_differ_are_listed(tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [sys.executable, script("flaky").__file__, "--runs", "3", "--loops", "1"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
        cwd=tmp_path,
        # Each run would import the plugins of all other tests, which takes seconds.
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    said = done.stdout.partition("3 runs next to 1 busy loops: 2 passed\n")[2]
    assert said == "test_some::test_every_other_time: passed failed passed\n"


@pytest.mark.parametrize(
    ("runs", "lines"),
    [
        ([{"a": "passed"}, {"a": "passed"}], []),
        ([{"a": "failed"}, {"a": "failed"}], ["a: failed failed"]),
        ([{"a": "passed"}, {}], ["a: passed missing"]),
        (
            [{"a": "skipped"}, {"a": "passed", "b": "passed"}],
            ["a: skipped passed", "b: missing passed"],
        ),
    ],
)
def test_a_test_is_unsteady_if_it_fails_or_differs(runs, lines):
    assert script("flaky").unsteady(runs) == lines
