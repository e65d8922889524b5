"""The server that a campaign talks to, and what goes through its doors."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
import grpc  # type: ignore[import-untyped]

from lab.chaos.answers import LOST, NO_ANSWER, Answer, error_in

FILES = "/v1/audio/transcriptions"
PATIENCE_S = 60.0
"""Seconds that a server may take for the answer to a short request."""


@dataclass(frozen=True, slots=True)
class Addresses:
    http: str
    """`host:port` of Triton's HTTP."""
    grpc: str
    """`host:port` of Triton's gRPC."""
    metrics: str
    """URL of the metrics."""
    gateway: str
    """URL of the gateway."""

    def of(self, port: str) -> tuple[str, int]:
        """Return host and port of `http`, `grpc`, `metrics` or `gateway`."""
        address: str = getattr(self, port)
        host, _, number = address.rpartition("//")[2].partition("/")[0].rpartition(":")
        return host, int(number)


@dataclass(frozen=True, slots=True)
class Target:
    addresses: Addresses
    session: aiohttp.ClientSession
    channel: Any
    """A channel of `grpc.aio`."""

    def triton(self, path: str) -> str:
        return f"http://{self.addresses.http}{path}"

    def gateway(self, path: str) -> str:
        return f"{self.addresses.gateway}{path}"


class Hostile(Protocol):
    """Something hostile that is sent through one door."""

    async def send(self, target: Target) -> list[Answer]:
        """Send it; return an answer for each request, chunk or session in it."""


@asynccontextmanager
async def target_at(addresses: Addresses) -> AsyncIterator[Target]:
    unlimited = aiohttp.TCPConnector(limit=0)
    patience = aiohttp.ClientTimeout(total=None)
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    async with (
        aiohttp.ClientSession(connector=unlimited, timeout=patience) as session,
        grpc.aio.insecure_channel(addresses.grpc, options=options) as channel,
    ):
        yield Target(addresses, session, channel)


async def answered(coming: Awaitable[Answer], *, patience_s: float = PATIENCE_S) -> Answer:
    """Return an answer, `NO_ANSWER` after `patience_s`, or `LOST` if its connection breaks."""
    try:
        async with asyncio.timeout(patience_s):
            return await coming
    except TimeoutError:
        return Answer(NO_ANSWER, f"within {patience_s:g} s")
    except (aiohttp.ClientError, ConnectionError, OSError) as error:
        return Answer(LOST, repr(error))


async def post(
    target: Target,
    url: str,
    body: Any,
    headers: dict[str, str] | None = None,
    *,
    method: str = "POST",
    is_gateway: bool = False,
) -> Answer:
    async with target.session.request(method, url, data=body, headers=headers) as response:
        data = await response.read()
        text = "" if response.status < 400 else error_in(data)
        return Answer(str(response.status), text, is_gateway=is_gateway)


async def transcribed(
    target: Target, file: Any, media: str = "audio/wav", *, patience_s: float = PATIENCE_S
) -> Answer:
    form = aiohttp.FormData()
    form.add_field("file", file, filename="talk", content_type=media)
    coming = post(target, target.gateway(FILES), form, is_gateway=True)
    return await answered(coming, patience_s=patience_s)
