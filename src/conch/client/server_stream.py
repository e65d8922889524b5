"""One live stream of a server: the requests of its chunks."""

import math
import secrets
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conch.client import tensors
from conch.wire.entry_points import ChunkPosition
from conch.wire.errors import ConchError, ServerLostError
from conch.wire.result import Transcript

NOTHING = np.zeros(0, np.float32)
"""The last chunk of a stream whose samples were all sent."""

Infer = Callable[[tensors.Request], Awaitable[Transcript]]
"""Sends the request of a chunk and returns the answer."""


class ServerStream:
    """One live stream of a server, from its first chunk to its last.

    Args:
        common: What all requests share; the first one has its parameters.
        sample_rate: Hz of the chunks.
        is_kept: Whether a stream whose first chunk was lost on its way counts as open.
    """

    def __init__(
        self, infer: Infer, common: tensors.Request, sample_rate: int, *, is_kept: bool
    ) -> None:
        self._infer, self._common, self._sample_rate = infer, common, sample_rate
        self._is_kept = is_kept
        self._id, self._session = uuid.uuid4().hex, secrets.token_hex(8)
        self.has_started = self.has_ended = False

    async def send(self, samples: NDArray[Any], *, ends: bool) -> Transcript:
        """Send the next samples [N] and return the answer; after an error START or END repeats."""
        starts = not self.has_started
        options = self._common.parameters if starts else {}
        request = self._request(samples, options, starts=starts, ends=ends)
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
        """End the stream without reading its last text, in the time of a chunk at most."""
        request = self._request(NOTHING, {"abandon": True}, starts=False, ends=True)
        await self._infer(replace(request, timeout_s=min(timeout_s, request.timeout_s)))

    def _request(
        self,
        samples: NDArray[Any],
        parameters: Mapping[str, tensors.OptionValue],
        *,
        starts: bool,
        ends: bool,
    ) -> tensors.Request:
        return replace(
            self._common,
            inputs=tensors.chunk_tensors(samples, self._sample_rate),
            parameters={"session": self._session, **parameters},
            place=ChunkPosition(self._id, starts, ends),
        )
