"""Which tests pytest-xdist gives to one worker, and in which event loop a coroutine runs."""

import gc
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from refusals import refused as refused
from virtual_time import VirtualTimeLoop

OWN_SERVERS = (
    "tests/integration/test_aliases.py",
    "tests/integration/test_deaths.py",
    "tests/integration/test_foreign.py",
    "tests/integration/test_hangs.py",
    "tests/integration/test_limits.py",
    "tests/integration/test_models.py",
    "tests/integration/test_on_demand.py",
    "tests/integration/test_own_server.py",
    "tests/integration/test_stream_ends.py",
    "tests/integration/test_tracing.py",
)
"""Files that start servers of their own by day."""

LONGEST = (
    "tests/integration/test_hangs.py",
    "tests/integration/test_own_server.py",
    "tests/integration/test_deaths.py",
    "tests/launcher/test_serve_heals.py",
    "tests/integration/test_models.py",
    "tests/integration/test_on_demand.py",
)
"""Files with few tests that take long: none of them may begin when all others are done."""

SECOND_HALVES = ("tests/gateway/test_f", "tests/integration/test_g")
"""How the second half of a folder begins whose tests share a server: each half has one of its own,
so that no worker has much more to do than others."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep files together, as what a file's tests share is made once in each worker.

    pytest-xdist's own groups are marks, which it writes where pytest 9.2 does not look.
    """
    from xdist.scheduler import LoadScopeScheduling

    class FilesTogether(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if file.startswith("tests/families/"):
                # What the tests of a family load.
                return file.rpartition("/")[0]
            for second in SECOND_HALVES:
                folder = second.rpartition("/")[0]
                if file.startswith(f"{folder}/") and file not in OWN_SERVERS:
                    return f"{folder}, {'second' if file >= second else 'first'} half"
            return file

        def schedule(self) -> None:
            super().schedule()
            for file in reversed(LONGEST):
                if file in self.workqueue:
                    self.workqueue.move_to_end(file, last=False)

    return FilesTogether(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests that talk to a server leave connections to the garbage collector.

    A connection that a server has refused may still hold data when the event loop of its test ends.
    The collector finds it in any later test, which would fail for it. Unit tests stay strict.
    """
    for item in items:
        if item.get_closest_marker("server"):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


def pytest_configure(config: pytest.Config) -> None:
    """Import all tests without collecting garbage, of which there is little."""
    gc.disable()
    # Not in pyproject.toml: .venv-bulk lacks anyio, and refuses an option that it does not know.
    config.option.anyio_mode = "auto"


@pytest.fixture(autouse=True, scope="session")
def usual_priority() -> Iterator[None]:
    """Keep the priority of a worker, which a component that is made in a test would lower for good.

    On a busy machine all later tests of the worker would starve.
    """
    of_process = os.setpriority

    def set_priority(which: int, who: int, priority: int) -> None:
        if who:
            of_process(which, who, priority)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "setpriority", set_priority)
        patch.setattr(os, "sched_setscheduler", lambda *_: None)
        yield


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Return the event loop of a test that is a coroutine."""
    is_virtual = request.node.get_closest_marker("virtual_time") is not None
    return "asyncio", {"loop_factory": VirtualTimeLoop} if is_virtual else {}


def pytest_collection_finish() -> None:
    """Leave what was imported out of later collections, each of which would take half a second."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Let the programs that are missing take one line of the summary, not one for each test."""
    # Not where no test asks for a program: it imports packages that .venv-bulk lacks.
    if "programs" in sys.modules:
        sys.modules["programs"].fold(terminalreporter.stats.get("skipped", []))
