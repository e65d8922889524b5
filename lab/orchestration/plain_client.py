"""Send requests to models other than `speech`, over HTTP as Triton's own client does."""

from collections.abc import Mapping
from typing import Any

import aiohttp
import tritonclient.http.aio as tritonhttp
from numpy.typing import NDArray
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from conch.client import tensors
from conch.client.triton_http import UNCOMPRESSED
from conch.component import Array


class PlainClient:
    """Client that sends one tensor and gets one; it belongs to the event loop it is made in."""

    def __init__(self, url: str, connections: int) -> None:
        self._url = url
        self._client = tritonhttp.InferenceServerClient(
            url, conn_limit=connections, conn_timeout=None
        )

    async def __aenter__(self) -> "PlainClient":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._client.close()

    async def infer(
        self,
        model: str,
        sent: tuple[str, NDArray[Any]],
        wanted: str,
        parameters: Mapping[str, Any] | None = None,
    ) -> Array:
        """Return an output tensor, batch dimension in front."""
        name, array = sent
        item = tritonhttp.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        try:
            answer = await self._client.infer(
                model,
                [item.set_data_from_numpy(array)],
                outputs=[tritonhttp.InferRequestedOutput(wanted)],
                parameters=dict(parameters or {}),
                headers=dict(UNCOMPRESSED),
            )
        except InferenceServerException as failure:
            raise tensors.error(failure.status(), failure.message(), self._url) from None
        except (OSError, aiohttp.ClientError) as failure:
            raise tensors.unreachable(self._url, failure) from None
        output: Array = answer.as_numpy(wanted)
        return output
