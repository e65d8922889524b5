"""What tests need beside the packages of their own Python."""

import os
import shutil
import sys
from pathlib import Path

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
