"""The punctuator on a real server, called as `speech` calls a text step."""

import asyncio

import numpy as np
import pytest
import tritonclient.http.aio as http
from infer_inputs import inputs_of
from tritonclient.utils import InferenceServerException

from conch.component import Array, bytes_array

pytestmark = pytest.mark.server

TEXTS = {
    "how are you": ("How are you?", [[0, 3, 0, 3], [8, 11, 8, 12]]),
    "Hello there.": ("Hello there.", []),
    "": ("", []),
}
"""What is sent, what comes back, and the spans."""


async def answer(
    triton: http.InferenceServerClient, text: str, caller: dict[str, str], language: str = ""
) -> tuple[str, Array]:
    sent = {"text": text, "language": language} if language else {"text": text}
    inputs = inputs_of(
        http, **{name: bytes_array([value])[np.newaxis] for name, value in sent.items()}
    )
    found = await triton.infer("punctuator", inputs, parameters=caller)
    return found.as_numpy("text")[0, 0].decode(), found.as_numpy("spans")[0]


async def answers_to_many_callers(url: str, caller: dict[str, str]) -> None:
    async with http.InferenceServerClient(url) as triton:
        calls = [answer(triton, text, caller) for text in TEXTS for _ in range(8)]
        found = await asyncio.gather(*calls)
        for (text, spans), sent in zip(found, [t for t in TEXTS for _ in range(8)], strict=True):
            assert (text, spans.tolist()) == TEXTS[sent]
            assert spans.shape == (len(TEXTS[sent][1]), 4)
        assert (await answer(triton, "how are you", caller, "de"))[0] == "how are you"
        assert (await answer(triton, "how are you", caller, "en"))[0] == "How are you?"
        with pytest.raises(InferenceServerException, match="at most 1000000 bytes; sent: 1000001"):
            await answer(triton, "a" * 1_000_001, caller)


def test_callers_at_once_get_their_own_texts(server, caller):
    asyncio.run(answers_to_many_callers(server.http_url, caller))
