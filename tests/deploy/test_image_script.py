"""The parts of scripts/image_test.py that need no image; `make image-test` runs the whole."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from project_scripts import ROOT, script


@pytest.fixture(scope="module")
def image_test() -> ModuleType:
    return script("image_test")


def test_folders_that_pip_reads_are_found(image_test: ModuleType, tmp_path: Path) -> None:
    index, links = tmp_path / "index" / "simple", tmp_path / "links"
    for folder in (index, links):
        folder.mkdir(parents=True)
    settings = {
        "PIP_INDEX_URL": "https://example.org/simple",
        "PIP_EXTRA_INDEX_URL": f"{index.as_uri()} {tmp_path.as_uri()}/gone/simple",
        "PIP_FIND_LINKS": f"{links} relative",
    }
    # An index on disk links to files next to it.
    assert image_test.local_paths(settings) == [str(index.parent), str(links)]


def test_settings_of_pip_come_from_the_environment_first(
    image_test: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = "global.index-url='https://a.org/simple'\n:env:.index-url='https://b.org/simple'\n"
    monkeypatch.setattr(image_test, "run", lambda *_: listed + "global.timeout='3'\n")
    assert image_test.pip_settings() == {"PIP_INDEX_URL": "https://b.org/simple"}


def test_what_does_not_come_in_time_is_named(image_test: ModuleType) -> None:
    assert image_test.wait_for(lambda: True, 0, "it") < 1
    with pytest.raises(AssertionError, match="the start: not within 0 s"):
        image_test.wait_for(lambda: False, 0, "the start")


def test_a_program_that_is_missing_is_named() -> None:
    # PATH has nothing, whichever user runs the tests.
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "image_test.py"],
        env={"PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "only root" in done.stderr or "apt-get install buildah bubblewrap" in done.stderr
