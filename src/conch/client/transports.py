"""The four transports of a `Request` to a Triton: HTTP and gRPC, each blocking and asyncio.

A transport sends one request and returns the tensor RESULT. `conch.client.tensors` interprets it.
The modules of tritonclient are slow to import, so they are imported with the first transport.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import nullcontext
from functools import partial
from typing import Any, Protocol

from conch.client import grpc_calls, streams, tensors
from conch.client.endpoint import CONNECT_TIMEOUT_S, Endpoint
from conch.client.timeouts import timeout
from conch.client.triton_messages import (
    DEADLINE_MARGIN_S,
    Result,
    arguments_of,
    grpc_bytes,
    grpc_failure,
    result_of,
    size_of,
)
from conch.wire.errors import ServerError

UNCOMPRESSED = {"Accept-Encoding": "identity"}
"""Headers against compression: aiohttp asks for gzip, and Triton then compresses even short
answers. Send a copy, because tritonclient adds to the mapping."""


class Transport(Protocol):
    """Sends requests one after the other."""

    def infer(self, request: tensors.Request) -> Result:
        """Send a request and return the tensor RESULT.

        Raises:
            ConchError: the server cannot be reached, is late, or answered with an error.
        """
        ...

    def stream(self, request: tensors.Request) -> Generator[Result, None, None]:
        """Send a request; yield RESULT of every part of the answer as it arrives.

        Raises:
            ServerError: this protocol has no such answers, or the server cannot be reached.
            ConchError: the server answered with an error.
        """
        ...

    def is_ready(self, model: str, timeout_s: float) -> bool:
        """Return whether the server takes requests for a model.

        Raises:
            ServerError: the server cannot be reached.
        """
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class AsyncTransport(Protocol):
    """Sends any number of requests at the same time."""

    async def infer(self, request: tensors.Request) -> Result:
        """Send a request and return the tensor RESULT; see `Transport.infer`."""
        ...

    def stream(self, request: tensors.Request) -> AsyncGenerator[Result, None]:
        """Send a request; yield RESULT of every part of the answer; see `Transport.stream`."""
        ...

    async def is_ready(self, model: str, timeout_s: float) -> bool:
        """Return whether the server takes requests for a model; see `Transport.is_ready`."""
        ...

    async def close(self) -> None:
        """Close the connections; requests in flight fail."""
        ...


class HttpTransport:
    """Blocking HTTP. tritonclient uses gevent here, whose sockets belong to one thread."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client: Any = None
        self._thread = 0

    def infer(self, request: tensors.Request) -> Result:
        import gevent  # type: ignore[import-untyped]
        import tritonclient.http as tritonhttp
        from geventhttpclient.response import HTTPParseError
        from tritonclient.utils import InferenceServerException

        client = self._connected(tritonhttp)
        try:
            with gevent.Timeout(request.timeout_s):
                return result_of(
                    client.infer(
                        **arguments_of(tritonhttp, request),
                        headers={**self._endpoint.headers, **request.headers},
                    )
                )
        except InferenceServerException as failure:
            raise tensors.error(failure.status(), failure.message(), str(self._endpoint)) from None
        except BaseException as failure:
            # The connection may be in the middle of an answer.
            self.close()
            if isinstance(failure, gevent.Timeout):
                raise tensors.no_answer(request.timeout_s, str(self._endpoint)) from None
            if isinstance(failure, OSError | HTTPParseError):
                raise tensors.unreachable(str(self._endpoint), failure) from None
            raise

    def stream(self, request: tensors.Request) -> Generator[Result, None, None]:
        raise _no_stream(self._endpoint)

    def is_ready(self, model: str, timeout_s: float) -> bool:
        import gevent
        import tritonclient.http as tritonhttp

        client = self._connected(tritonhttp)
        try:
            with gevent.Timeout(timeout_s):
                return bool(client.is_model_ready(model, headers=dict(self._endpoint.headers)))
        except (gevent.Timeout, OSError) as failure:
            self.close()
            raise tensors.unreachable(str(self._endpoint), failure) from None

    def _connected(self, tritonhttp: Any) -> Any:
        if self._client is None:
            self._thread = threading.get_ident()
            self._client = tritonhttp.InferenceServerClient(
                self._endpoint.address.target,
                ssl=self._endpoint.address.is_secure,
                connection_timeout=CONNECT_TIMEOUT_S,
                network_timeout=None,  # `infer` has a time-out for all of the request.
            )
        if self._thread != threading.get_ident():
            raise RuntimeError("a Client over HTTP belongs to one thread; make one for each thread")
        return self._client

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


class GrpcTransport:
    """Blocking gRPC; safe to share between threads."""

    def __init__(self, endpoint: Endpoint) -> None:
        import grpc  # type: ignore[import-untyped]

        self._endpoint = endpoint
        self._channel = grpc_calls.channel(grpc, endpoint)
        self._infer = grpc_calls.infer_call(self._channel)
        self._ready = grpc_calls.ready_call(self._channel)

    def infer(self, request: tensors.Request) -> Result:
        import grpc
        import tritonclient.grpc as tritongrpc

        message = grpc_bytes(request)
        timeout_s = request.timeout_s + DEADLINE_MARGIN_S
        try:
            answer = self._infer(
                message, timeout=timeout_s, metadata=grpc_calls.metadata(self._endpoint, request)
            )
        except grpc.RpcError as failure:
            raise grpc_failure(failure, request, self._endpoint) from None
        return result_of(tritongrpc.InferResult(answer))

    def stream(self, request: tensors.Request) -> Generator[Result, None, None]:
        return streams.stream(self._endpoint, request)

    def is_ready(self, model: str, timeout_s: float) -> bool:
        import grpc

        try:
            answer = self._ready(
                grpc_calls.ready_request(model),
                timeout=timeout_s,
                metadata=grpc_calls.metadata(self._endpoint),
            )
        except grpc.RpcError as failure:
            raise tensors.unreachable(str(self._endpoint), failure.details()) from None
        return bool(answer.ready)

    def close(self) -> None:
        self._channel.close()


class AsyncHttpTransport:
    """HTTP on asyncio: a pool of connections, each with one request at a time."""

    def __init__(self, endpoint: Endpoint, connections: int) -> None:
        import tritonclient.http.aio as tritonhttp

        self._endpoint = endpoint
        self._client = tritonhttp.InferenceServerClient(
            endpoint.address.target,
            ssl=endpoint.address.is_secure,
            ssl_context=True,  # aiohttp's word for "verify certificates"; None is deprecated.
            conn_limit=connections,
            conn_timeout=None,  # `infer` has a time-out for all of the request.
        )

    async def infer(self, request: tensors.Request) -> Result:
        import aiohttp
        import tritonclient.http.aio as tritonhttp
        from tritonclient.utils import InferenceServerException

        try:
            async with timeout(request.timeout_s):
                arguments = arguments_of(tritonhttp, request)
                result = await self._client.infer(
                    **arguments,
                    headers={**UNCOMPRESSED, **self._endpoint.headers, **request.headers},
                )
            return result_of(result)
        except InferenceServerException as failure:
            raise tensors.error(failure.status(), failure.message(), str(self._endpoint)) from None
        except asyncio.TimeoutError:
            raise tensors.no_answer(request.timeout_s, str(self._endpoint)) from None
        except (OSError, aiohttp.ClientError) as failure:
            raise tensors.unreachable(str(self._endpoint), failure) from None

    def stream(self, request: tensors.Request) -> AsyncGenerator[Result, None]:
        raise _no_stream(self._endpoint)

    async def is_ready(self, model: str, timeout_s: float) -> bool:
        import aiohttp

        try:
            async with timeout(timeout_s):
                return bool(
                    await self._client.is_model_ready(model, headers=dict(self._endpoint.headers))
                )
        except (OSError, asyncio.TimeoutError, aiohttp.ClientError) as failure:
            raise tensors.unreachable(str(self._endpoint), failure) from None

    async def close(self) -> None:
        await self._client.close()


class AsyncGrpcTransport:
    """gRPC on asyncio: any number of requests on one connection."""

    def __init__(self, endpoint: Endpoint, uploads: int | None = None) -> None:
        import grpc

        self._endpoint = endpoint
        self._turns = nullcontext() if uploads is None else asyncio.Semaphore(uploads)
        self._channel = grpc_calls.channel(grpc.aio, endpoint)
        self._infer = grpc_calls.infer_call(self._channel)
        self._upload = grpc_calls.upload_call(self._channel)
        self._ready = grpc_calls.ready_call(self._channel)

    async def infer(self, request: tensors.Request) -> Result:
        import grpc
        import tritonclient.grpc as tritongrpc

        timeout_s = request.timeout_s + DEADLINE_MARGIN_S
        metadata = grpc_calls.metadata(self._endpoint, request)
        settings = {"timeout": timeout_s, "metadata": metadata}
        try:
            if size_of(request) > grpc_calls.LARGE_BYTES:
                start = partial(self._upload, **settings)
                answer = await (await grpc_calls.upload(start, request, self._turns))
            else:
                answer = await self._infer(grpc_bytes(request), **settings)
        except grpc.RpcError as failure:
            raise grpc_failure(failure, request, self._endpoint) from None
        return result_of(tritongrpc.InferResult(answer))

    def stream(self, request: tensors.Request) -> AsyncGenerator[Result, None]:
        return streams.stream_async(self._endpoint, request, self._turns)

    async def is_ready(self, model: str, timeout_s: float) -> bool:
        import grpc

        try:
            answer = await self._ready(
                grpc_calls.ready_request(model),
                timeout=timeout_s,
                metadata=grpc_calls.metadata(self._endpoint),
            )
        except grpc.RpcError as failure:
            raise tensors.unreachable(str(self._endpoint), failure.details()) from None
        return bool(answer.ready)

    async def close(self) -> None:
        await self._channel.close()


def _no_stream(endpoint: Endpoint) -> ServerError:
    return ServerError(
        f"{endpoint} is an HTTP address of a Triton, whose streams go over gRPC: give the client a "
        "grpc:// URL (grpc://127.0.0.1:8001 for a server that runs here), or that of a gateway"
    )
