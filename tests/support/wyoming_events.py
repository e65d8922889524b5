"""What a server of the Wyoming protocol answers."""

import pytest
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event


async def events_until(line: AsyncTcpClient, kind: str) -> list[Event]:
    """Return the events up to one of a type."""
    events = []
    while (event := await line.read_event()) is not None:
        events.append(event)
        if event.type == kind:
            return events
    pytest.fail(f"the connection ended before {kind}: {events}")


async def next_error(line: AsyncTcpClient) -> Error:
    return Error.from_event((await events_until(line, "error"))[-1])
