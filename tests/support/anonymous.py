"""What a process has allocated, without the files and the memory that it shares."""

import re
from pathlib import Path


def anonymous_mb(process: int) -> float:
    """Return the anonymous memory of a process, in MB."""
    status = Path(f"/proc/{process}/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+)", status)
    assert found
    return int(found[1]) / 1024
