"""Components that neither answer nor die: their calls end, others serve on, and they come back."""

import asyncio
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from administration import OPEN, administer
from live import Chunks
from metrics import metrics_of
from waiting import wait_until

from conch.client import AsyncClient, Client
from conch.launcher import ServerConfig, TritonServer
from conch.processes import model_processes
from conch.wire.needs import components_of_path
from lab.chaos.hanging_models import HangingModels

pytestmark = pytest.mark.server

ROOT = Path(__file__).parents[2]
STEP = 10_240
MODELS = ("vad", "moonshine_encoder", "ctc_streaming_decoder")
HANGS = ("sleeps", "burns", "60")
QUICK = {("vad", "sleeps"), ("ctc_streaming_decoder", "60")}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> HangingModels:
    return HangingModels(ROOT / "component_models", tmp_path_factory.mktemp("hanging"), MODELS)


@pytest.fixture(scope="module")
def server(models: HangingModels) -> Iterator[TritonServer]:
    config = ServerConfig(
        model_repositories=(ROOT / "bls_models", models.repository),
        models=("speech", *components_of_path("two_pass"), "ctc_encoder", "ctc_decoder"),
        warm_up=True,
        extra_args=(OPEN,),
        stop_timeout_s=8,
    )
    with TritonServer(config) as running, running.healing():
        yield running


def hangs_of(server: TritonServer, model: str) -> float:
    return metrics_of(server.metrics_url)[f"conch_component_hangs_total{{component={model}}}"]


async def components_away(server: TritonServer) -> tuple[str, ...]:
    async with AsyncClient(server.http_url) as client:
        return (await client.health()).away


def cases(*models: str) -> list[Any]:
    """Return models with each way to hang, all but a few for the night."""
    return [
        pytest.param(model, how, marks=[] if (model, how) in QUICK else [pytest.mark.nightly])
        for model in models
        for how in HANGS
    ]


@pytest.mark.parametrize(("model", "how"), cases(*MODELS[:2]))
def test_recordings_are_answered_word_for_word(server, models, waveform, model, how):
    def transcribe(_: int) -> str:
        with Client(server.http_url, timeout_s=120) as client:
            return client.transcribe(waveform).text

    expected = transcribe(0)
    before, heals = hangs_of(server, model), server.heals[model]
    models.hang(model, how)
    with ThreadPoolExecutor(4) as pool, Client(server.http_url, timeout_s=120) as client:
        answers = pool.map(transcribe, range(4))
        wait_until(lambda: models.has_begun(model))
        began = time.monotonic()
        other = {"decoder": "ctc", "vad": False}
        away: set[str] = set()
        while server.heals[model] == heals:
            assert client.transcribe(waveform, **other).text, "other components serve on"
            away.update(asyncio.run(components_away(server)))
            time.sleep(1)  # requests without a pause would take both cores until then
        assert away <= {model}, "it may be back before anybody asks; nothing else is away"
        took_s = time.monotonic() - began
        assert set(answers) == {expected}
    print(f"{model} {how}: loaded again after {took_s:.1f} s")
    wait_until(lambda: hangs_of(server, model) == before + 1)


@pytest.mark.parametrize(("model", "how"), cases(*MODELS[2:]))
def test_a_live_stream_goes_on_with_its_firm_words(server, models, verses, model, how):
    # There are firm words in time on a busy machine too.
    options = {"adaptive": False}
    expected = Chunks(server.http_url, 1, **options).send_all(verses, STEP)["text"]
    resumed = metrics_of(server.metrics_url)["conch_streams_resumed_total"]
    chunks, stable = Chunks(server.http_url, 1, **options), ""
    for start in range(0, len(verses), STEP):
        if start == 4 * STEP:
            assert stable
            models.hang(model, how)
        answer = chunks.send(verses[start : start + STEP])
        assert answer["stable"].startswith(stable)
        stable = answer["stable"]
    assert chunks.send(np.zeros(0), ends=True, zeros=160)["text"] == expected
    wait_until(lambda: metrics_of(server.metrics_url)["conch_streams_resumed_total"] == resumed + 1)


def test_speech_is_unloaded_while_a_component_hangs(server, models, waveform):
    def transcribe() -> str:
        with Client(server.http_url, timeout_s=120) as client:
            return client.transcribe(waveform).text

    def is_there() -> bool:
        return "speech" in model_processes(server.pid).values()

    expected = transcribe()
    models.hang("vad", "sleeps")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(transcribe)
        wait_until(lambda: models.has_begun("vad"))
        administer(server, "speech", "unload")
        # Triton waits for the request, which waits for the component.
        wait_until(lambda: not is_there(), timeout_s=60)
        assert answer.result() == expected
    administer(server, "speech", "load")
    assert transcribe() == expected


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_components_that_wait_for_a_core_are_left_alone(server, waveform):
    with Client(server.http_url, timeout_s=500) as client:
        expected = client.transcribe(waveform).text
        before, began = Counter(server.heals), time.monotonic()
        client.transcribe(waveform)
        alone_s = time.monotonic() - began
        burning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(20)]
        try:
            began = time.monotonic()
            assert client.transcribe(waveform).text == expected
            took_s = time.monotonic() - began
        finally:
            for process in burning:
                process.kill()
                process.wait()
    print(f"{alone_s:.1f} s alone, {took_s:.1f} s beside 20 programs that compute")
    assert server.heals == before
