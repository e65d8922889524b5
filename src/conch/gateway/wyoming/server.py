"""The port of the Wyoming protocol."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from conch.gateway.http_server import keep_alive
from conch.gateway.state import Gateway
from conch.gateway.wyoming.connection import WyomingConnection
from conch.gateway.wyoming.events import Events
from conch.wire.errors import ServerError
from conch.wire.hosts import host_port

logger = logging.getLogger(__name__)

CONNECTIONS_A_SESSION = 4
"""Connections for each live session that may be open: clients keep some that are idle."""


@asynccontextmanager
async def listening(gateway: Gateway, host: str, port: int) -> AsyncIterator[int]:
    """Serve inside the block and yield the port; raise a ServerError if it cannot be opened."""
    running: set[asyncio.Task[None]] = set()
    most = CONNECTIONS_A_SESSION * gateway.config.max_sessions

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(running) >= most:
            writer.close()
            return
        running.add(task)
        try:
            events = Events(reader, writer, gateway.config.times.send_s)
            await WyomingConnection(gateway, events).run()
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client is gone, or the gateway stops
        except Exception:
            logger.exception("a Wyoming connection has failed")
        finally:
            running.discard(task)
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    try:
        server = await asyncio.start_server(answer, host, port)
    except OSError as error:
        raise ServerError(
            f"Wyoming cannot listen on {host_port(host, port)}: {error.strerror}; another address "
            "is given by --wyoming HOST:PORT; port 0 takes any free port"
        ) from None
    keep_alive(server, gateway.config.times.ping_s)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in [*running]:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
