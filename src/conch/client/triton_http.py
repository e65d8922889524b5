"""The transport of a `Request` to a Triton over HTTP (KServe v2)."""

import io
import json
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote

from numpy.typing import NDArray

from conch.client import tensors
from conch.client.endpoint import Endpoint
from conch.client.http_session import connector_to, explained, session_to
from conch.client.speech import Speech, speech_of
from conch.wire.entry_points import SYNTHESIS
from conch.wire.errors import ConchError, DeadlineError, ServerError
from conch.wire.result import Transcript

UNCOMPRESSED = {"Accept-Encoding": "identity"}
"""Headers against compression: aiohttp asks for gzip, and Triton then compresses even short
answers."""
JSON_BYTES = "Inference-Header-Content-Length"
"""Header with the length of the JSON in front of the tensors, in requests and answers."""


class HttpTransport(tensors.TritonTransport):
    """HTTP: a pool of connections, each with one request at a time."""

    def __init__(self, endpoint: Endpoint, connections: int) -> None:
        self._endpoint = endpoint
        self._session = session_to(endpoint, connector_to(endpoint, connections))

    async def result(self, request: tensors.Request) -> NDArray[Any] | None:
        result: NDArray[Any] | None = (await self._answer(request)).as_numpy("RESULT")
        return result

    async def speak(self, request: tensors.Request) -> AsyncGenerator[Speech, None]:
        if request.model == SYNTHESIS[1]:
            raise self._no_streams()
        yield speech_of((await self._answer(request)).as_numpy)

    async def _answer(self, request: tensors.Request) -> Any:
        """Return the answer to a request as an `InferResult`."""
        import tritonclient.http as tritonhttp

        body, json_bytes = body_of(request)
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
            raise _error(answer.status, content, str(self._endpoint))
        return tritonhttp.InferenceServerClient.parse_response_body(
            content, header_length=answer.headers.get(JSON_BYTES)
        )

    def stream(self, request: tensors.Request) -> AsyncGenerator[Transcript, None]:
        raise self._no_streams()

    def _no_streams(self) -> ServerError:
        return ServerError(
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


def _error(status: int, body: bytes, url: str) -> ConchError:
    """Return the exception for an answer of a Triton, or of a proxy in front of it."""
    try:
        return tensors.error(str(status), json.loads(body)["error"], url)
    except (ValueError, TypeError, KeyError):
        said = body.decode(errors="replace")
        if status == 503:
            return tensors.UnavailableError(f"{url}: a proxy has no server: {said:.200}")
        return tensors.error(str(status), said, url)


def body_of(request: tensors.Request) -> tuple[bytes, int | None]:
    """Return the body of a request over HTTP, and the length of its JSON if tensors follow it."""
    import tritonclient.http as tritonhttp
    from tritonclient.utils import np_to_triton_dtype

    inputs = []
    for name, tensor in request.inputs.items():
        item = tritonhttp.InferInput(name, list(tensor.shape), np_to_triton_dtype(tensor.dtype))
        inputs.append(item.set_data_from_numpy(tensor))
    body: tuple[bytes, int | None] = tritonhttp.InferenceServerClient.generate_request_body(
        inputs,
        outputs=[tritonhttp.InferRequestedOutput(name) for name in request.outputs],
        parameters=dict(request.parameters),
        request_id=request.request_id,
        **request.sequence,
    )
    return body
