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
NODE = Path(playwright.__file__).parent / "driver" / "node"
"""Playwright's own node, as npm's `openai` needs a newer one than Debian 12 has."""
_PLACES = {
    "chromium": "",
    "curl": "",
    "npm": str(NODE_TESTS / "node_modules" / "openai"),
    "openai-older": str(Path(sys.prefix) / "openai-older"),
}
"""Where each is; a program without a place is looked for on PATH."""


def required(what: str) -> str:
    """Return the path of what a test needs, or skip the test. In CI, fail it.

    Args:
        what: `chromium` or `curl` for that program, `npm` for node's packages, `openai-older` for
            the folder of a year ago's `openai`.
    """
    place = _PLACES[what] or shutil.which(what) or ""
    if place and Path(place).exists():
        return place
    packages = "" if what == "openai-older" else f"apt-get install {what}, then "
    message = f"{what} is missing: {packages}scripts/install test"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)
