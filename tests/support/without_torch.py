"""Code that is run where torch cannot be imported."""

import subprocess
import sys

REFUSED = "import sys; sys.modules['torch'] = None\n"
"""Every import of torch after this is an ImportError."""


def run(code: str) -> str:
    """Run code in a process of its own and return what it prints."""
    found = subprocess.run(
        [sys.executable, "-c", REFUSED + code], capture_output=True, text=True, timeout=120
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()
