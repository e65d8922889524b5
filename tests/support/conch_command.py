"""The command `conch` as a process of its own."""

import subprocess
import sys
from pathlib import Path

# A shell without job control has its background jobs ignore Ctrl-C, and so would the command.
LISTEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
CONCH = [
    sys.executable,
    "-c",
    f"import sys; from conch.cli import main; {LISTEN}; sys.exit(main())",
]


def conch(
    *arguments: object, stdin: bytes | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*CONCH, *map(str, arguments)], input=stdin, capture_output=True, cwd=cwd, timeout=150
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )
