"""Send recordings to a server, and separate the faults of a recording from those of the server."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

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
    TranscriptionError,
    from_wire,
    to_wire,
)
from conch.wire.result import Transcript

RETRY_S = 2.0
"""Seconds between two looks at a server that is gone."""
MAX_RETRIES = 4
"""Times that a recording is sent again because its server cannot be reached, or is lost."""
MAX_FAILURES = 2
"""Times that a component fails with a recording."""

Read = Callable[[], Awaitable[Audio]]
"""Reads the audio of a recording; its errors are the recording's."""


@dataclass(frozen=True, slots=True)
class Sending:
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    jobs: int = 4
    """Most requests in flight at a server."""
    timeout_s: float = 3600.0
    patience_s: float = 300.0
    """Seconds to wait for a server that is gone."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request: a transcript, or the error that is the recording's own."""

    transcript: Transcript | None
    error: ConchError | None = None
    seconds: float = 0.0
    """Seconds from sending the request to the answer."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Version and weights of the models that were called, where the server reports them."""

    def to_json(self) -> str:
        error = self.error
        fields = {
            "transcript": self.transcript and self.transcript.to_json(),
            "error": to_wire(error) if isinstance(error, TranscriptionError) else str(error or ""),
            "seconds": self.seconds,
            "models": dict(self.models),
        }
        return json.dumps(fields)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Answer":
        data = json.loads(text)
        if data["transcript"]:
            transcript = Transcript.from_json(data["transcript"])
            return cls(transcript, None, data["seconds"], data["models"])
        error = from_wire(data["error"]) or ConchError(data["error"])
        return cls(None, error, data["seconds"])


def model_versions(url: str, names: list[str], headers: Mapping[str, str]) -> dict[str, str]:
    """Return the version and weights of models over gRPC; `packaged` are those of Conch itself."""
    if not url.startswith("grpc"):
        return {}
    import grpc  # type: ignore[import-untyped]
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    from conch.client import triton_grpc
    from conch.client.endpoint import Endpoint

    endpoint = Endpoint.parse(url, headers=headers)
    settings = {"timeout": 10, "metadata": triton_grpc.metadata(endpoint)}
    versions: dict[str, str] = {}
    with triton_grpc.channel(grpc, endpoint) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for name in names:
            try:
                answer = stub.ModelConfig(service_pb2.ModelConfigRequest(name=name), **settings)
                meta = stub.ModelMetadata(service_pb2.ModelMetadataRequest(name=name), **settings)
            except grpc.RpcError:
                continue
            weights = answer.config.parameters["model"].string_value or "packaged"
            versions[name] = f"{','.join(meta.versions)} {weights}"
    return versions


class Sender:
    """The connection of one event loop to one server, or to the one that follows it."""

    def __init__(
        self,
        address: Callable[[], str],
        sending: Sending,
        *,
        connect: Callable[..., AsyncClient] | None = None,
        versions: Callable[..., dict[str, str]] = model_versions,
        retry_s: float = RETRY_S,
    ) -> None:
        """`address` returns the server's URL, after a loss that of the next one; it may block."""
        self._address, self._sending = address, sending
        self._connect, self._versions_of, self._retry_s = connect or AsyncClient, versions, retry_s
        self._slots = asyncio.Semaphore(sending.jobs)
        self._alone = asyncio.Lock()
        self._connecting = asyncio.Lock()
        self._client: AsyncClient | None = None
        self._url = ""
        self._models: dict[str, str] = {}
        self.in_flight = 0

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def transcribe(self, read: Read, options: Mapping[str, Any]) -> Answer:
        self.in_flight += 1
        try:
            async with self._slots:
                return await self._answer(read, options)
        finally:
            self.in_flight -= 1

    async def _answer(self, read: Read, options: Mapping[str, Any]) -> Answer:
        begun = time.perf_counter()
        try:
            transcript = await self._transcript(await self._read(read), options)
        except BulkError:
            raise
        except MissingModelError as failure:
            raise BulkError(f"{self._url}: {failure}") from None
        except ConchError as failure:
            return Answer(None, failure, time.perf_counter() - begun)
        models = await self._versions(transcript.path)
        return Answer(transcript, None, time.perf_counter() - begun, models)

    async def _read(self, read: Read) -> Audio:
        try:
            return await asyncio.wait_for(read(), self._sending.timeout_s)
        except asyncio.TimeoutError:
            raise DeadlineError(f"not read within {self._sending.timeout_s:g} s") from None

    async def _transcript(self, audio: Audio, options: Mapping[str, Any]) -> Transcript:
        retries = failures = 0
        losses = Losses()
        timeout_s, patience_s = self._sending.timeout_s, self._sending.patience_s
        # A busy server is alive: it does other requests first.
        deadline = time.monotonic() + max(patience_s, timeout_s)
        while True:
            client = await self._connected()
            try:
                # This recording may have killed the server: it is sent alone.
                async with self._alone if losses.is_suspect() else nullcontext():
                    with losses.attempt():
                        return await client.transcribe(audio, timeout_s=timeout_s, **options)
            except OverloadedError as failure:
                if time.monotonic() > deadline:
                    raise BulkError(f"{self._url} is too busy: {failure}") from None
                await asyncio.sleep(failure.retry_after_s or self._retry_s)
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

    async def _connected(self) -> AsyncClient:
        async with self._connecting:
            if self._client is None:
                self._client = await self._next_client()
            return self._client

    async def _next_client(self) -> AsyncClient:
        """Return a client of a server, whose models may differ from those of the last one."""
        self._url = await asyncio.to_thread(self._address)
        self._models = {}
        sending = self._sending
        return self._connect(self._url, timeout_s=sending.timeout_s, headers=sending.headers)

    async def _lost(self, client: AsyncClient, failure: ServerError) -> None:
        """Wait until a server answers again, the same or another one; else raise a BulkError."""
        deadline = time.monotonic() + self._sending.patience_s
        async with self._connecting:
            if self._client is not client:
                return  # another request has found the next server
            while True:
                candidate = await self._next_client()
                try:
                    if await candidate.is_ready():
                        self._client = candidate
                        await client.close()
                        return
                except ServerError as error:
                    failure = error
                await candidate.close()
                if time.monotonic() > deadline:
                    raise BulkError(
                        f"no server for {self._sending.patience_s:g} s: {failure}; run "
                        "the same command again to continue"
                    )
                await asyncio.sleep(self._retry_s)

    async def _versions(self, path: tuple[str, ...]) -> dict[str, str]:
        models = self._models
        missing = [name for name in path if name not in models]
        if missing:
            headers = self._sending.headers
            models.update(await asyncio.to_thread(self._versions_of, self._url, missing, headers))
        return {name: models.get(name, "") for name in path}
