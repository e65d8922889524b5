"""The transports of a `Request` to a Triton: HTTP and gRPC.

A transport sends one request and returns its transcripts. All are for asyncio; the blocking client
runs them in a thread. The modules of tritonclient are slow to import, so they are imported with the
first request.
"""

import asyncio
import io
import json
from collections.abc import AsyncGenerator
from contextlib import nullcontext
from functools import partial
from typing import Protocol
from urllib.parse import quote

from conch.client import grpc_calls, streams, tensors
from conch.client.endpoint import Endpoint
from conch.client.http_session import connector_to, explained, session_to
from conch.client.triton_messages import (
    DEADLINE_MARGIN_S,
    Result,
    grpc_bytes,
    grpc_failure,
    grpc_result,
    http_body,
    http_result,
    size_of,
)
from conch.wire.errors import ConchError, DeadlineError, ServerError
from conch.wire.result import Transcript

UNCOMPRESSED = {"Accept-Encoding": "identity"}
"""Headers against compression: aiohttp asks for gzip, and Triton then compresses even short
answers."""
JSON_BYTES = "Inference-Header-Content-Length"
"""Header with the length of the JSON in front of the tensors, in requests and answers."""


class Transport(Protocol):
    """Sends any number of requests at the same time."""

    async def infer(self, request: tensors.Request) -> list[Transcript]:
        """Send a request and return a transcript of each audio.

        Raises:
            ConchError: the server cannot be reached, is late, or answered with an error.
        """
        ...

    def stream(self, request: tensors.Request) -> AsyncGenerator[Transcript, None]:
        """Send a request of one audio; yield every part of the answer as it arrives.

        Raises:
            ServerError: this protocol has no such answers, or the server cannot be reached.
            ConchError: the server answered with an error.
        """
        ...

    async def components_away(self, model: str, timeout_s: float) -> tuple[str, ...]:
        """Return the components of a model that have died, hang or are being replaced.

        Raises:
            ConchError: the server cannot be reached, is late, or has no such answer.
        """
        ...

    async def is_ready(self, model: str, timeout_s: float) -> bool:
        """Return whether the server takes requests for a model.

        Raises:
            ServerError: the server cannot be reached.
        """
        ...

    async def close(self) -> None:
        """Close the connections; requests in flight fail."""
        ...


class _TritonTransport:
    """What a Triton answers over any protocol: the tensor RESULT."""

    async def infer(self, request: tensors.Request) -> list[Transcript]:
        return await tensors.transcripts(await self._result(request), request.num_rows)

    async def components_away(self, model: str, timeout_s: float) -> tuple[str, ...]:
        return tensors.away(await self._result(tensors.health_request(model, timeout_s)))

    async def _result(self, request: tensors.Request) -> Result:
        raise NotImplementedError


class HttpTransport(_TritonTransport):
    """HTTP: a pool of connections, each with one request at a time."""

    def __init__(self, endpoint: Endpoint, connections: int) -> None:
        self._endpoint = endpoint
        self._session = session_to(endpoint, connector_to(endpoint, connections))

    async def _result(self, request: tensors.Request) -> Result:
        body, json_bytes = http_body(request)
        headers = {**UNCOMPRESSED, **request.headers}
        if json_bytes is not None:
            headers[JSON_BYTES] = str(json_bytes)
        async with (
            explained(self._endpoint, request.timeout_s),
            self._session.post(
                self._url(request.model, "infer"),
                data=io.BytesIO(body),
                headers=headers,
                allow_redirects=False,  # only this server gets the key
            ) as answer,
        ):
            content = await answer.read()
        if answer.status != 200:
            raise _http_error(answer.status, content, str(self._endpoint))
        return http_result(content, answer.headers.get(JSON_BYTES))

    def stream(self, request: tensors.Request) -> AsyncGenerator[Transcript, None]:
        raise ServerError(
            f"{self._endpoint} is an HTTP address of a Triton, whose streams go over gRPC: give "
            "the client a grpc:// URL (grpc://127.0.0.1:8001 for a server that runs here), or that "
            "of a gateway"
        )

    async def is_ready(self, model: str, timeout_s: float) -> bool:
        try:
            async with (
                explained(self._endpoint, timeout_s),
                self._session.get(self._url(model, "ready"), allow_redirects=False) as answer,
            ):
                return bool(answer.status == 200)
        except DeadlineError as failure:
            raise tensors.unreachable(str(self._endpoint), failure) from None

    async def close(self) -> None:
        await self._session.close()

    def _url(self, model: str, action: str) -> str:
        return f"{self._endpoint}/v2/models/{quote(model)}/{action}"


class GrpcTransport(_TritonTransport):
    """gRPC: any number of requests on one connection."""

    def __init__(self, endpoint: Endpoint, uploads: int | None = None) -> None:
        import grpc  # type: ignore[import-untyped]

        self._endpoint = endpoint
        self._turns = nullcontext() if uploads is None else asyncio.Semaphore(uploads)
        self._channel = grpc_calls.channel(grpc.aio, endpoint)
        self._calls = grpc_calls.calls_on(self._channel)

    async def _result(self, request: tensors.Request) -> Result:
        import grpc

        timeout_s = request.timeout_s + DEADLINE_MARGIN_S
        metadata = grpc_calls.metadata(self._endpoint, request)
        settings = {"timeout": timeout_s, "metadata": metadata}
        try:
            if size_of(request) > grpc_calls.LARGE_BYTES:
                start = partial(self._calls.upload, **settings)
                answer = await (await grpc_calls.upload(start, request, self._turns))
            else:
                answer = await self._calls.infer(grpc_bytes(request), **settings)
        except grpc.RpcError as failure:
            raise grpc_failure(failure, request, self._endpoint) from None
        return grpc_result(answer)

    def stream(self, request: tensors.Request) -> AsyncGenerator[Transcript, None]:
        return streams.stream(self._endpoint, request, self._turns)

    async def is_ready(self, model: str, timeout_s: float) -> bool:
        import grpc

        try:
            answer = await self._calls.ready(
                grpc_calls.ready_request(model),
                timeout=timeout_s,
                metadata=grpc_calls.metadata(self._endpoint),
            )
        except grpc.RpcError as failure:
            raise tensors.unreachable(str(self._endpoint), failure.details()) from None
        return bool(answer.ready)

    async def close(self) -> None:
        await self._channel.close()


def _http_error(status: int, body: bytes, url: str) -> ConchError:
    """Return the exception for an answer of a Triton, or of a proxy in front of it."""
    try:
        return tensors.error(str(status), json.loads(body)["error"], url)
    except (ValueError, TypeError, KeyError):
        said = body.decode(errors="replace")
        if status == 503:
            return tensors.UnavailableError(f"{url}: a proxy has no server: {said:.200}")
        return tensors.error(str(status), said, url)
