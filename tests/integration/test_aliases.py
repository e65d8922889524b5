"""`speech` under the names of other Triton repositories, called as their clients call it.

The tensors, the sequence ids and what is read of an answer are those of Triton-ASR-Client's
`client.py` at 3acd67f, which serves for sherpa, WeNet and FunASR.
"""

import asyncio
import json
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc.aio as grpc
from infer_inputs import inputs_of
from recordings import Recording
from waiting import wait_until

from conch.cli.serve import models_named
from conch.client import Client
from conch.launcher import ServerConfig, TritonServer

pytestmark = pytest.mark.server

OFFLINE = ("transducer", "attention_rescoring", "infer_pipeline")
STREAMING = ("transducer", "streaming_wenet")
ALIASES = tuple(dict.fromkeys((*OFFLINE, *STREAMING)))
FIRST_CHUNK, CHUNK = 13_280, 10_240
"""Samples of the first chunk and of the others, for sherpa."""


@pytest.fixture(scope="module")
def server() -> Iterator[TritonServer]:
    """Return a server with explicit models, which the further names are loaded beside."""
    models = models_named("attention,streaming")
    with TritonServer(ServerConfig(models=models, also_as=ALIASES, stop_timeout_s=8)) as running:
        yield running


@pytest.fixture(scope="module")
def waveforms(recordings: list[Recording]) -> list[np.ndarray]:
    return [item.waveform() for item in recordings[:2]]


def called(server: TritonServer, calls: Callable[[Any], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with grpc.InferenceServerClient(server.grpc_url) as client:
            return await calls(client)

    return asyncio.run(main())


async def transcripts(
    client: Any, model: str, wav: np.ndarray, lens: list[int], **sequence: Any
) -> np.ndarray:
    lengths = np.array(lens, np.int32)[:, np.newaxis]
    inputs = inputs_of(grpc, WAV=wav, WAV_LENS=lengths)
    outputs = [grpc.InferRequestedOutput("TRANSCRIPTS")]
    answer = await client.infer(model, inputs, outputs=outputs, **sequence)
    found: np.ndarray = answer.as_numpy("TRANSCRIPTS")
    return found


def test_they_are_models_of_the_server(server: TritonServer) -> None:
    assert set(server.models()) == {*models_named("attention,streaming"), *ALIASES}
    url = f"http://{server.http_url}/v2/models/streaming_wenet"
    with urllib.request.urlopen(url, timeout=10) as answer:
        inputs = {item["name"] for item in json.load(answer)["inputs"]}
    assert {"WAV", "WAV_LENS", "AUDIO"} <= inputs


@pytest.mark.parametrize("model", OFFLINE)
def test_recordings(server: TritonServer, waveforms: list[np.ndarray], model: str) -> None:
    """A batch of two, padded beyond the longer one to whole seconds."""
    seconds = max(map(len, waveforms)) // 16_000 + 1
    padded = [np.pad(item, (0, seconds * 16_000 - len(item))) for item in waveforms]
    lens = [len(item) for item in waveforms]
    rows = called(server, lambda client: transcripts(client, model, np.stack(padded), lens))
    texts = [b" ".join(row).decode() for row in rows]
    with Client(server.http_url) as client:
        assert texts == [client.transcribe(item).text for item in waveforms]
    assert all(texts)


def test_streams_of_one_id_under_two_names(
    server: TritonServer, waveforms: list[np.ndarray]
) -> None:
    """Each name has streams of its own: the same id at the same time is no other's."""

    async def recognized(client: Any, model: str, waveform: np.ndarray) -> str:
        start, size, text = 0, FIRST_CHUNK, ""
        while start < len(waveform):
            valid = waveform[start : start + size]
            padded = np.zeros((1, size), np.float32)
            padded[0, : len(valid)] = valid
            place = {
                "sequence_id": 10_086,
                "sequence_start": start == 0,
                "sequence_end": start + size >= len(waveform),
            }
            rows = await transcripts(client, model, padded, [len(valid)], **place)
            # Triton-ASR-Client and sherpa join the answer; WeNet and FunASR take its first text.
            text = b" ".join(rows).decode()
            assert text == rows[0].decode()
            start, size = start + size, CHUNK
        return text

    async def at_once(client: Any) -> list[str]:
        pairs = zip(STREAMING, waveforms, strict=True)
        return await asyncio.gather(*(recognized(client, *pair) for pair in pairs))

    found = called(server, at_once)
    with Client(server.http_url) as client:
        for text, waveform in zip(found, waveforms, strict=True):
            assert text
            with client.live() as live:
                assert text == live.finish(waveform).text


def test_the_metrics_are_those_of_the_model_that_answers(
    server: TritonServer, waveforms: list[np.ndarray]
) -> None:
    counted = 'conch_requests_total{mode="offline",model="speech",outcome="ok"} '

    def number() -> int:
        with urllib.request.urlopen(server.metrics_url, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(int(line.removeprefix(counted)) for line in lines if line.startswith(counted))

    before = number()
    wav = waveforms[0][np.newaxis]
    called(server, lambda client: transcripts(client, "streaming_wenet", wav, [wav.shape[1]]))
    wait_until(lambda: number() > before)
