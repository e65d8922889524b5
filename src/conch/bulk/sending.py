"""Send recordings to a server, and tell what is the recording's fault from what is the server's."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import Any

from conch.bulk.work import Heard
from conch.client import AsyncClient
from conch.client.poison import Losses
from conch.client.tensors import Audio
from conch.wire.errors import (
    BulkError,
    ComponentError,
    ConchError,
    DeadlineError,
    InternalError,
    MissingModelError,
    OverloadedError,
    ServerError,
)

RETRY_S = 2.0
"""Seconds between two looks at a server that is gone."""
MAX_RETRIES = 4
"""Times that a recording is sent again because its server cannot be reached, or is lost."""
MAX_FAILURES = 2
"""Times that a component fails with a recording."""


class Sender:
    """One server, as one worker uses it; it belongs to an event loop."""

    def __init__(
        self,
        address: Callable[[str], Awaitable[str]],
        *,
        headers: Mapping[str, str],
        jobs: int,
        timeout_s: float,
        patience_s: float,
    ) -> None:
        """Connect to nothing yet.

        Args:
            address: Returns the URL to use, given the one that was lost, or "".
            headers: Headers of every request.
            jobs: Most requests in flight.
            timeout_s: Seconds for one request.
            patience_s: Seconds to wait for a server.
        """
        self._address, self._headers = address, headers
        self._timeout_s, self._patience_s = timeout_s, patience_s
        self._slots = asyncio.Semaphore(jobs)
        self._alone = asyncio.Lock()
        self._connecting = asyncio.Lock()
        self._client: AsyncClient | None = None
        self._url = ""
        self._models: dict[str, str] = {}
        self.in_flight = 0
        """Recordings that are being sent, or wait for it."""

    async def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def transcribe(
        self, read: Callable[[], Awaitable[Audio]], options: Mapping[str, Any]
    ) -> Heard:
        """Return the answer for one recording: a transcript, or the error that is its own.

        Args:
            read: Returns the audio; its errors are the recording's.
            options: Options of the request.

        Raises:
            BulkError: no server can be had, or the server lacks a model that all requests need.
        """
        self.in_flight += 1
        try:
            async with self._slots:
                return await self._heard(read, options)
        finally:
            self.in_flight -= 1

    async def _heard(
        self, read: Callable[[], Awaitable[Audio]], options: Mapping[str, Any]
    ) -> Heard:
        begun = time.perf_counter()
        try:
            transcript = await self._answered(await self._read(read), options)
        except BulkError:
            raise
        except MissingModelError as failure:
            raise BulkError(f"{self._url}: {failure}") from None
        except ConchError as failure:
            return Heard(None, failure, time.perf_counter() - begun)
        models = await self._versions(transcript.path)
        return Heard(transcript, None, time.perf_counter() - begun, models)

    async def _read(self, read: Callable[[], Awaitable[Audio]]) -> Audio:
        try:
            return await asyncio.wait_for(read(), self._timeout_s)
        except asyncio.TimeoutError:
            raise DeadlineError(f"not read within {self._timeout_s:g} s") from None

    async def _answered(self, audio: Audio, options: Mapping[str, Any]) -> Any:
        retries = failures = 0
        losses = Losses()
        # A busy server is there: others are to be done first.
        deadline = time.monotonic() + max(self._patience_s, self._timeout_s)
        while True:
            client = await self._connected()
            try:
                # It may be what the server dies of: others that were lost with it go apart.
                async with self._alone if losses.is_suspect() else nullcontext():
                    with losses.attempt():
                        return await self._asked(client, audio, options)
            except OverloadedError as failure:
                if time.monotonic() > deadline:
                    raise BulkError(f"{self._url} is too busy: {failure}") from None
                await asyncio.sleep(failure.retry_after_s or RETRY_S)
            except MissingModelError:
                raise
            except (ComponentError, InternalError):
                failures += 1
                if failures > MAX_FAILURES:
                    raise
            except ServerError as failure:
                retries += 1
                if retries > MAX_RETRIES:
                    raise
                await self._lost(client, failure)

    async def _asked(self, client: AsyncClient, audio: Audio, options: Mapping[str, Any]) -> Any:
        return await client.transcribe(audio, timeout_s=self._timeout_s, **options)

    async def _connected(self) -> AsyncClient:
        async with self._connecting:
            if self._client is None:
                await self._find()
                self._client = AsyncClient(
                    self._url, timeout_s=self._timeout_s, headers=self._headers
                )
            return self._client

    async def _lost(self, client: AsyncClient, failure: ServerError) -> None:
        """Wait until a server answers again, the same or another one.

        Raises:
            BulkError: none does in time.
        """
        deadline = time.monotonic() + self._patience_s
        async with self._connecting:
            if self._client is not client:
                return  # who was lost before has found it
            while True:
                await self._find()
                found = AsyncClient(self._url, timeout_s=self._timeout_s, headers=self._headers)
                try:
                    if await found.is_ready():
                        self._client = found
                        await client.close()
                        return
                except ServerError as error:
                    failure = error
                await found.close()
                if time.monotonic() > deadline:
                    raise BulkError(
                        f"no server for {self._patience_s:g} s: {failure}; the same command goes "
                        "on from here"
                    )
                await asyncio.sleep(RETRY_S)

    async def _find(self) -> None:
        """Look for a server; its models may be other ones than those of the last."""
        self._url = await self._address(self._url)
        self._models = {}

    async def _versions(self, path: tuple[str, ...]) -> dict[str, str]:
        models = self._models
        missing = [name for name in path if name not in models]
        if missing:
            models.update(
                await asyncio.to_thread(model_versions, self._url, missing, self._headers)
            )
        return {name: models.get(name, "") for name in path}


def model_versions(url: str, names: list[str], headers: Mapping[str, str]) -> dict[str, str]:
    """Return what a Triton tells of its models over gRPC: the version, and its weights.

    The weights are the model's parameter `model` where that names some; otherwise those that come
    with the version of Conch.

    Args:
        url: Address of the server.
        names: Names of models.
        headers: Headers of every request.

    Returns:
        Text by name, without what the server does not tell.
    """
    found: dict[str, str] = {}
    if not url.startswith("grpc"):
        return found
    import grpc  # type: ignore[import-untyped]
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    from conch.client import grpc_calls
    from conch.client.endpoint import Endpoint

    endpoint = Endpoint.parse(url, headers=headers)
    with grpc_calls.channel(grpc, endpoint) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for name in names:
            try:
                answer = stub.ModelConfig(
                    service_pb2.ModelConfigRequest(name=name),
                    timeout=10,
                    metadata=grpc_calls.metadata(endpoint),
                )
                meta = stub.ModelMetadata(
                    service_pb2.ModelMetadataRequest(name=name),
                    timeout=10,
                    metadata=grpc_calls.metadata(endpoint),
                )
            except grpc.RpcError:
                continue
            weights = answer.config.parameters["model"].string_value or "packaged"
            found[name] = f"{','.join(meta.versions)} {weights}"
    return found
