"""One live stream of a server: the requests of its chunks."""

import math
import secrets
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from conch.client import tensors
from conch.wire.errors import ConchError, ServerLostError
from conch.wire.result import Transcript
from conch.wire.stream_place import StreamPlace

NOTHING = np.zeros(0, np.float32)
"""The last chunk of a stream whose samples were all sent."""

Infer = Callable[[tensors.Request], Awaitable[Transcript]]
"""Sends the request of a chunk and returns the answer."""


class ServerStream:
    """One live stream of a server, from its first chunk to its last."""

    def __init__(
        self,
        infer: Infer,
        options: Mapping[str, tensors.OptionValue],
        *,
        sample_rate: int,
        timeout_s: float,
        model: str,
        request_id: str,
        is_kept: bool,
    ) -> None:
        """Begin before the first chunk.

        Args:
            infer: Sends a request.
            options: Options that are checked.
            sample_rate: Hz of the chunks.
            timeout_s: Seconds of each request.
            model: Name of the entry point.
            request_id: Id of every chunk.
            is_kept: Whether a stream whose first chunk was lost on its way counts as open.
        """
        self._infer, self._is_kept = infer, is_kept
        self._sample_rate, self._timeout_s, self._model = sample_rate, timeout_s, model
        self._options, self._request_id = options, request_id
        self._id, self._session = uuid.uuid4().hex, secrets.token_hex(8)
        self.has_started = self.has_ended = False

    async def send(self, samples: NDArray[np.generic], *, ends: bool) -> Transcript:
        """Send the next samples [N] and return the answer; after an error START or END is repeated.

        Raises:
            ConchError: the answer is an error.
        """
        starts = not self.has_started
        request = self._request(samples, starts=starts, ends=ends)
        self.has_started, self.has_ended = True, ends
        try:
            return await self._infer(request)
        except ConchError as error:
            # A stream whose START was lost on its way may be there.
            if starts and not (self._is_kept and type(error) is ServerLostError):
                self.has_started = False
            if ends:
                self.has_ended = False
            raise

    async def abandon(self, timeout_s: float = math.inf) -> None:
        """End the stream without reading its last text.

        Args:
            timeout_s: Longest time in seconds, if that of a chunk is longer.

        Raises:
            ConchError: the answer is an error.
        """
        request = self._request(NOTHING, starts=False, ends=True, abandon=True)
        await self._infer(replace(request, timeout_s=min(timeout_s, request.timeout_s)))

    def _request(
        self, samples: NDArray[np.generic], *, starts: bool, ends: bool, **further: bool
    ) -> tensors.Request:
        return tensors.Request(
            model=self._model,
            inputs=tensors.chunk_tensors(samples, self._sample_rate),
            parameters={"session": self._session, **(self._options if starts else {}), **further},
            timeout_s=self._timeout_s,
            place=StreamPlace(self._id, starts, ends),
            request_id=self._request_id,
        )
