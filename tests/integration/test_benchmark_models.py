"""The alternatives to Conch on a real server: their texts are those of `speech`."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from waiting import wait_until

from conch.client import Client
from conch.component import Row
from conch.launcher import ServerConfig, TritonServer
from lab.model_repository import repository_of
from lab.orchestration import added, hops
from lab.orchestration.added import PATHS, direct
from lab.orchestration.component_queues import load_components
from lab.orchestration.plain_client import PlainClient
from lab.orchestration.systems import Clip
from lab.served import ModelWork, model_work, stages_since
from lab.settings import Setting

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
    for path in PATHS[:2]:
        queues = load_components(path.components, batched=False)

        def answer(model, inputs, queues=queues):
            return queues[model].submit(Row(inputs)).result(timeout=60)

        with Client(url) as client:
            assert (
                direct(path, waveform, answer) == client.transcribe(waveform, **path.options).text
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
    assert stages_since(before, after, requests=1)["vad"].compute_ms > 0


@pytest.mark.timeout(240)  # a server for each path and one for the calls
def test_the_extras_of_the_benchmark_are_measured(recordings):
    clips = [Clip(item.path, item.waveform()) for item in recordings[:1]]
    paths = added.measure(clips, repeats=1)
    assert [item.path for item in paths] == [path.name for path in PATHS]
    for item in paths:
        assert item.speech_ms > item.compute_ms > 0 < item.direct_ms
        assert (item.ensemble_ms is not None) == ("no VAD" in item.path)
    calls = hops.measure(requests=1, rounds=1)
    assert set(calls) == set(hops.PAYLOADS)
    for cost in calls.values():
        assert cost.hop.hop_latency_ms > 0 < cost.hop_blocking.hop_latency_ms


@pytest.mark.parametrize("model", ["hop", "hop_blocking"])
def test_a_hop_makes_as_many_calls_as_it_is_asked_for(url, model):
    before = model_work(url, ["null"])
    waveform = np.full(3, 0.5, np.float32)
    (found,) = asked(url, model, "waveform", "nothing", [waveform], calls=7)
    assert found.tolist() == [[0.5]]
    counted(url, before, ["null"], [7])
