"""The client for asyncio."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from numpy.typing import NDArray

from conch.client import tensors
from conch.client.address import DEFAULT_URL
from conch.client.connections import connect
from conch.client.endpoint import Endpoint
from conch.client.live import RESUME_S, AsyncLiveStream
from conch.client.transports import Transport
from conch.wire.errors import ConchError
from conch.wire.result import Transcript


class AsyncClient:
    """Send audio to a Conch server, or to a gateway in front of some, and await the transcript.

    The arguments and errors are those of `Client`. Any number of requests may be in flight.
    Cancelling the task that awaits a request cancels the request, over gRPC and by a gateway on the
    server too.
    A client belongs to the event loop of its first request.

    Args:
        url: `host:port`, or `http://`, `https://`, `grpc://` or `grpcs://` in front of it.
        timeout_s: seconds until a call without a `timeout_s` of its own gives up.
        connections: HTTP connections at once, without those of live streams; gRPC has one.
        api_key: key of the gateway or of a proxy, as of `Client`.
        headers: headers of every request, as of `Client`.
        uploads: requests of more than 1 MiB that are sent over gRPC at once, each of which takes
            twice its size meanwhile; None for no limit.

    Raises:
        ServerError: `url` is not the URL of a server, or a header cannot be sent.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeout_s: float = tensors.DEFAULT_TIMEOUT_S,
        connections: int = 100,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        uploads: int | None = None,
    ) -> None:
        self._endpoint = Endpoint.parse(url, api_key, headers)
        self._connections, self._uploads = connections, uploads
        self._timeout_s = timeout_s
        self._transport: Transport | None = None
        self._connecting = asyncio.Lock()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; requests in flight fail."""
        transport, self._transport = self._transport, None
        self._connecting = asyncio.Lock()  # another event loop may come
        if transport is not None:
            await transport.close()

    async def transcribe(
        self,
        audio: tensors.Audio,
        *,
        sample_rate: int = 16000,
        timeout_s: float | None = None,
        model: str = "speech",
        request_id: str = "",
        **options: tensors.OptionValue,
    ) -> Transcript:
        """Transcribe one audio; see `Client.transcribe`."""
        return (await self._infer([audio], sample_rate, timeout_s, model, request_id, options))[0]

    async def transcribe_batch(
        self,
        audios: Sequence[bytes] | Sequence[NDArray[Any]] | Sequence[str],
        *,
        sample_rate: int = 16000,
        timeout_s: float | None = None,
        model: str = "speech",
        request_id: str = "",
        **options: tensors.OptionValue,
    ) -> list[Transcript]:
        """Transcribe several audios in one request; see `Client.transcribe_batch`."""
        return (
            await self._infer(audios, sample_rate, timeout_s, model, request_id, options)
            if audios
            else []
        )

    async def stream(
        self,
        audio: tensors.Audio,
        *,
        sample_rate: int = 16000,
        timeout_s: float | None = None,
        model: str = "speech_stream",
        request_id: str = "",
        **options: tensors.OptionValue,
    ) -> AsyncGenerator[Transcript, None]:
        """Transcribe one audio; yield a transcript of each segment as soon as it is final.

        See `Client.stream`. `contextlib.aclosing` cancels the request at the end of its block.
        Without it, the event loop cancels the request later.
        """
        request = await self._request([audio], sample_rate, timeout_s, model, request_id, options)
        transport = await self._connected(request.timeout_s)
        async with aclosing(transport.stream(request)) as parts:
            async for part in parts:
                yield part

    def live(
        self,
        *,
        sample_rate: int = 16000,
        timeout_s: float | None = None,
        model: str = "speech",
        request_id: str = "",
        keep_segments: bool = True,
        resume_s: float = RESUME_S,
        on_loss: Callable[[ConchError], None] = lambda error: None,
        **options: tensors.OptionValue,
    ) -> AsyncLiveStream:
        """Open a live stream; see `Client.live`."""
        return AsyncLiveStream(
            self._hear,
            sample_rate=sample_rate,
            timeout_s=self._timeout_s if timeout_s is None else timeout_s,
            model=model,
            request_id=request_id,
            keep_segments=keep_segments,
            resume_s=resume_s,
            on_loss=on_loss,
            options=options,
        )

    async def _infer(
        self,
        audios: Sequence[tensors.Audio],
        sample_rate: int,
        timeout_s: float | None,
        model: str,
        request_id: str,
        options: dict[str, tensors.OptionValue],
    ) -> list[Transcript]:
        request = await self._request(audios, sample_rate, timeout_s, model, request_id, options)
        return await (await self._connected(request.timeout_s)).infer(request)

    async def is_ready(self, model: str = "speech", *, timeout_s: float = 5.0) -> bool:
        """Return whether the server takes requests for a model; see `Client.is_ready`."""
        return await (await self._connected(timeout_s)).is_ready(model, timeout_s)

    async def components_away(
        self, model: str = "speech", *, timeout_s: float = 5.0
    ) -> tuple[str, ...]:
        """Return the components of `model` that have died, hang or are being replaced.

        Args:
            model: Name of the entry point.
            timeout_s: Seconds to wait for the answer.

        Raises:
            ConchError: the server cannot be reached, is late, or has no such answer.
        """
        return await (await self._connected(timeout_s)).components_away(model, timeout_s)

    async def _hear(self, request: tensors.Request) -> Transcript:
        """Send a chunk of a live stream."""
        return (await (await self._connected(request.timeout_s)).infer(request))[0]

    async def _connected(self, timeout_s: float) -> Transport:
        if self._transport is not None:
            return self._transport
        # Not in __init__: connections belong to the running event loop.
        async with self._connecting:
            if self._transport is None:
                self._transport = await connect(
                    self._endpoint,
                    connections=self._connections,
                    timeout_s=timeout_s,
                    uploads=self._uploads,
                )
            return self._transport

    async def _request(
        self,
        audios: Sequence[tensors.Audio],
        sample_rate: int,
        timeout_s: float | None,
        model: str,
        request_id: str,
        options: dict[str, tensors.OptionValue],
    ) -> tensors.Request:
        # In a thread, because this reads files.
        return await asyncio.to_thread(
            tensors.build,
            audios,
            sample_rate=sample_rate,
            model=model,
            timeout_s=timeout_s,
            default_timeout_s=self._timeout_s,
            request_id=request_id,
            options=options,
        )
