"""What Conch is measured against, on a real server: it says what `speech` says, and no less."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from servers import wait_until

from conch.bench import added, hops
from conch.bench.added import ROADS, direct
from conch.bench.component_queues import load_components
from conch.bench.plain_client import PlainClient
from conch.bench.repositories import repository_of
from conch.bench.served import ModelWork, model_work, stages_since
from conch.bench.settings import Setting
from conch.bench.systems import Clip
from conch.client import Client
from conch.component import Row
from conch.server import ServerConfig, TritonServer

pytestmark = [pytest.mark.server, pytest.mark.nightly]

COMPONENTS = ("vad", "attention_encoder", "attention_decoder", "ctc_encoder", "ctc_decoder")
MODELS = (
    *("speech_blocking", "attention_ensemble", "ctc_ensemble", "hop", "hop_blocking", "null"),
    *("speech", *COMPONENTS),
)
NO_VAD = {"vad": False}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with (
        repository_of(MODELS, [Setting(MODELS[0], "instances", "2")]) as repository,
        TritonServer(ServerConfig(model_repositories=(repository,))) as server,
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
        ("attention_ensemble", ("waveform", "hypotheses"), NO_VAD),
        # An ensemble has the component's own beam.
        ("ctc_ensemble", ("waveform", "hypotheses"), {**NO_VAD, "decoder": "ctc", "beam_size": 10}),
    ],
)
def test_it_says_what_speech_says(url, recordings, model, tensors, options):
    waveforms = [recording.waveform() for recording in recordings]
    with Client(url) as client:
        expected = [client.transcribe(item, **options).text for item in waveforms]
    found = [item[0, 0].decode() for item in asked(url, model, *tensors, waveforms)]
    assert found == expected
    assert all(len(text.split()) > 5 for text in found)


def test_components_in_this_process_say_it_too(url, recordings):
    waveform = recordings[0].waveform()
    for road in ROADS[:2]:
        queues = load_components(road.components, batched=False)

        def answer(model, inputs, queues=queues):
            return queues[model].submit(Row(inputs)).result(timeout=60)

        with Client(url) as client:
            assert (
                direct(road, waveform, answer) == client.transcribe(waveform, **road.options).text
            )


def test_a_blocking_model_cuts_long_audio_where_speech_does(url, recordings):
    pause = np.zeros(3 * 16_000, np.float32)
    parts = [part for recording in recordings[:2] for part in (recording.waveform(), pause)]
    long = np.concatenate(parts)[: 15 * 16_000]
    before = model_work(url, COMPONENTS[:3])
    with Client(url) as client:
        expected = client.transcribe(long)
    assert len(expected.segments) > 1
    calls = (1, len(expected.segments), len(expected.segments))
    before = counted(url, before, COMPONENTS[:3], calls)
    (found,) = asked(url, "speech_blocking", "WAV", "TRANSCRIPTS", [long])
    assert found[0, 0].decode() == expected.text
    after = counted(url, before, COMPONENTS[:3], calls)
    assert stages_since(before, after, requests=1)["vad"]["compute_ms"] > 0


@pytest.mark.timeout(240)  # a server for each road and one for the calls
def test_the_extras_of_the_benchmark_are_measured(recordings):
    clips = [Clip(item.path, item.waveform()) for item in recordings[:1]]
    roads = added.measure(clips, repeats=1)
    assert [road["road"] for road in roads] == [road.name for road in ROADS]
    for road in roads:
        assert road["speech_ms"] > road["compute_ms"] > 0 < road["direct_ms"]
        assert ("ensemble_ms" in road) == ("no VAD" in road["road"])
    calls = hops.measure(requests=1, rounds=1)
    assert calls["1 sample"]["hop"]["hop_latency_ms"] > 0
    assert len(hops.rows(calls)) == 4


@pytest.mark.parametrize("model", ["hop", "hop_blocking"])
def test_a_hop_makes_as_many_calls_as_it_is_asked_for(url, model):
    before = model_work(url, ["null"])
    waveform = np.full(3, 0.5, np.float32)
    (found,) = asked(url, model, "waveform", "nothing", [waveform], calls=7)
    assert found.tolist() == [[0.5]]
    counted(url, before, ["null"], [7])
