"""What tests need beside the packages of their own Python."""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import playwright
import pytest

ROOT = Path(__file__).parents[2]
NODE_TESTS = ROOT / "tests" / "gateway" / "node"
"""Folder of what runs under node; its `package.json` names the packages."""
_PLACES = {
    "chromium": "",
    "curl": "",
    # Playwright's own, as npm's `openai` needs a newer one than Debian 12 has.
    "node": str(Path(playwright.__file__).parent / "driver" / "node"),
    "npm": str(NODE_TESTS / "node_modules" / "openai"),
    "openai-older": str(Path(sys.prefix) / "openai-older"),
}
"""Where each is; a program without a place is looked for on PATH."""
_OF_DEBIAN = ("chromium", "curl", "npm")


def required(what: str) -> str:
    """Return the path of what a test needs, or skip the test. In CI, fail it.

    Args:
        what: `chromium`, `curl` or `node` for that program, `npm` for node's packages,
            `openai-older` for the folder of a year ago's `openai`.
    """
    place = _PLACES[what] or shutil.which(what) or ""
    if place and Path(place).exists():
        return place
    before = f"apt-get install {what}, then " if what in _OF_DEBIAN else ""
    message = f"{what} is missing: {before}scripts/install test"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


def fold(skipped: Sequence[Any]) -> None:
    """Give all tests that were skipped for a missing program the same reason.

    pytest then writes one line for all of them.

    Args:
        skipped: `TestReport`s of the skipped tests; those with another reason stay as they are.
    """
    missing = {}
    for report in skipped:
        found = re.search(r"(\S+) is missing: .*scripts/install test$", str(report.longrepr[2]))
        if found:
            missing[report] = found[1]
    names = sorted(set(missing.values()))
    packages = " ".join(name for name in names if name in _OF_DEBIAN)
    before = f"apt-get install {packages}, then " if packages else ""
    reason = f"Skipped: missing: {', '.join(names)}: {before}scripts/install test"
    for report in missing:
        report.longrepr = (str(Path(__file__).relative_to(ROOT)), None, reason)
