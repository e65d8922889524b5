"""Which tests pytest-xdist gives to one worker: whole files, and all that share a server."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        shares_server = "server" in getattr(item, "fixturenames", ())
        group = "server" if shares_server else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
