"""Runs tests several times next to busy loops, and lists those whose outcome differs.

    make flaky ARGS="--runs 5 tests/bls"
    make flaky ARGS="--loops 4 --nice 10 -n 4 --dist loadgroup -m server"

Arguments that it does not know go to pytest. It ends with 1 if a test failed in
any run, or had another outcome in another one.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

BUSY = "while True: pass"


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep that many cores busy."""
    # Linux shares cores among sessions before it does among processes.
    started = [
        subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True) for _ in range(loops)
    ]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def outcomes(report: Path) -> Mapping[str, str]:
    """Return the outcome of each test of a JUnit report."""
    by_test = {}
    for case in ElementTree.parse(report).iter("testcase"):
        failed = {item.tag for item in case} & {"failure", "error"}
        skipped = "skipped" if case.find("skipped") is not None else "passed"
        by_test[f"{case.get('classname')}::{case.get('name')}"] = "failed" if failed else skipped
    return by_test


def unsteady(runs: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a line for each test that has failed, or whose outcome differs: all of its outcomes.

    A test that a run lacks was "missing" there.
    """
    names: dict[str, None] = {name: None for run in runs for name in run}
    lines = []
    for name in names:
        had = [run.get(name, "missing") for run in runs]
        if "failed" in had or len({*had}) > 1:
            lines.append(f"{name}: {' '.join(had)}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of all tests (default: 5)")
    parser.add_argument("--loops", type=int, default=2, help="busy loops next to them (default: 2)")
    parser.add_argument("--nice", type=int, default=0, help="niceness of the tests (default: 0)")
    settings, others = parser.parse_known_args()
    runs, passed = [], 0
    with TemporaryDirectory() as folder, busy(settings.loops):
        for number in range(1, settings.runs + 1):
            report = Path(folder) / f"{number}.xml"
            command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *others]
            done = subprocess.run(command, preexec_fn=lambda: os.nice(settings.nice))
            passed += not done.returncode
            if done.returncode not in (0, 1):  # pytest has not run the tests
                return done.returncode
            runs.append(outcomes(report))
    lines = unsteady(runs)
    print(f"\n{settings.runs} runs next to {settings.loops} busy loops: {passed} passed")
    print(*lines, sep="\n")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
