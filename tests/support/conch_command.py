"""The command `conch`, in this process or in one of its own."""

import io
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from conch.cli import main

# A shell without job control has its background jobs ignore Ctrl-C, and so would the command.
LISTEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
CONCH = [
    sys.executable,
    "-c",
    f"import sys; from conch.cli import main; {LISTEN}; sys.exit(main())",
]


def called(
    *arguments: object, main: Callable[[list[str]], int] = main
) -> "subprocess.CompletedProcess[str]":
    """Run a command in this process: another one would take a second or two to import Conch."""
    command, out, err = [str(item) for item in arguments], io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = main(command)
        except SystemExit as ended:
            assert isinstance(ended.code, int)
            status = ended.code
    return subprocess.CompletedProcess(command, status, out.getvalue(), err.getvalue())


def conch(
    *arguments: object, stdin: bytes | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*CONCH, *map(str, arguments)], input=stdin, capture_output=True, cwd=cwd, timeout=150
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )
