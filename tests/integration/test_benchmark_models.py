"""The alternatives to Conch on a real server: their texts are those of `speech`."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from recordings import in_turn
from waiting import wait_until

from conch.client import Client
from conch.launcher import ServerConfig, TritonServer
from lab.model_repository import repository_of
from lab.orchestration.plain_client import PlainClient
from lab.served import ModelWork, model_work, stages_since
from lab.settings import Setting

pytestmark = [pytest.mark.server, pytest.mark.nightly]

COMPONENTS = ("vad", "attention_encoder", "attention_decoder")
MODELS = ("speech_blocking", "attention_ensemble", "speech", *COMPONENTS)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with (
        repository_of(MODELS, [Setting(MODELS[0], "instances", "2")]) as repository,
        TritonServer(
            ServerConfig(model_repositories=(repository,), open_components=True)
        ) as server,
    ):
        yield server.http_url


def asked(url: str, model: str, name: str, wanted: str, waveforms, **parameters) -> list:
    async def all_at_once() -> list:
        async with PlainClient(url, connections=4) as client:
            return await asyncio.gather(
                *(
                    client.infer(model, (name, item[np.newaxis]), wanted, parameters)
                    for item in waveforms
                )
            )

    return asyncio.run(all_at_once())


def counted(
    url: str, before: Mapping[str, ModelWork], models: Sequence[str], calls: Sequence[int]
) -> dict[str, ModelWork]:
    """The models' work once it is so many calls more: Triton counts one after its answer."""
    expected = [before[name].requests + more for name, more in zip(models, calls, strict=True)]
    wait_until(lambda: [item.requests for item in model_work(url, models).values()] == expected)
    return model_work(url, models)


@pytest.mark.parametrize(
    ("model", "tensors", "options"),
    [
        ("speech_blocking", ("WAV", "TRANSCRIPTS"), {}),
        ("attention_ensemble", ("waveform", "hypotheses"), {"vad": False}),
    ],
)
def test_it_says_what_speech_says(url, recordings, model, tensors, options):
    waveforms = [recording.waveform() for recording in recordings]
    with Client(url) as client:
        expected = [client.transcribe(item, **options).text for item in waveforms]
    found = [item[0, 0].decode() for item in asked(url, model, *tensors, waveforms)]
    assert found == expected
    assert all(len(text.split()) > 5 for text in found)


def test_a_blocking_model_cuts_long_audio_where_speech_does(url, recordings):
    long = in_turn(recordings[:2], 3)[: 15 * 16_000]
    before = model_work(url, COMPONENTS)
    with Client(url) as client:
        expected = client.transcribe(long)
    assert len(expected.segments) > 1
    calls = (1, len(expected.segments), len(expected.segments))
    before = counted(url, before, COMPONENTS, calls)
    (found,) = asked(url, "speech_blocking", "WAV", "TRANSCRIPTS", [long])
    assert found[0, 0].decode() == expected.text
    after = counted(url, before, COMPONENTS, calls)
    assert stages_since(before, after, requests=1)["vad"].compute_ms > 0
