"""Requests outlive the components that they call: each process is killed, its model replaced."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from administration import OPEN, administer
from live import Chunks
from logged import server_log
from metrics import metrics_of
from waiting import wait_until

from conch.client import Client
from conch.launcher import ServerConfig, TritonServer
from conch.processes import model_processes
from conch.wire.needs import components_of_path

pytestmark = pytest.mark.server

STEP = 10_240


@pytest.fixture(scope="module")
def lines() -> Iterator[list[str]]:
    """The lines of the server's log."""
    with server_log() as found:
        yield found


@pytest.fixture(scope="module")
def mortal(lines: list[str]) -> Iterator[TritonServer]:
    """Yield a server whose models the test may load and unload."""
    config = ServerConfig(
        models=("speech", *components_of_path("two_pass")),
        extra_args=(OPEN,),
        # Triton waits for idle connections of clients as well.
        stop_timeout_s=8,
    )
    with TritonServer(config) as running:
        yield running


def kill(server: TritonServer, model: str) -> None:
    for process, name in model_processes(server.pid).items():
        if name == model:
            os.kill(process, signal.SIGKILL)


def replace(server: TritonServer, model: str) -> None:
    """Bring a model back, as a launcher does."""
    for action in ("unload", "load"):
        administer(server, model, action)


@pytest.mark.parametrize("model", components_of_path("moonshine"))
def test_recordings_in_flight_are_answered_word_for_word(mortal, lines, waveform, model):
    def transcribe(_: int) -> str:
        with Client(mortal.http_url, timeout_s=120) as client:
            return client.transcribe(waveform).text

    expected = transcribe(0)
    kill(mortal, model)
    with ThreadPoolExecutor(3) as pool:
        answers = pool.map(transcribe, range(3))
        wait_until(lambda: f"component {model} is away; its calls wait for it" in lines)
        replace(mortal, model)
        assert set(answers) == {expected}
    repeated = f"conch_calls_repeated_total{{component={model},outcome=ok}}"
    wait_until(lambda: metrics_of(mortal.metrics_url)[repeated] > 0)


@pytest.mark.parametrize("model", ["ctc_streaming_encoder", "ctc_streaming_decoder"])
def test_a_live_stream_goes_on(mortal, verses, model):
    # There are firm words in time on a busy machine too.
    options = {"adaptive": False}
    expected = Chunks(mortal.http_url, 1, **options).send_all(verses, STEP)["text"]
    resumed = metrics_of(mortal.metrics_url)["conch_streams_resumed_total"]
    chunks = Chunks(mortal.http_url, 1, **options)
    stable = ""
    with ThreadPoolExecutor(1) as launcher:
        for start in range(0, len(verses), STEP):
            if start == 4 * STEP:
                assert stable
                kill(mortal, model)
                replaced = launcher.submit(replace, mortal, model)
            answer = chunks.send(verses[start : start + STEP])
            assert answer["stable"].startswith(stable)
            stable = answer["stable"]
        replaced.result()
    assert chunks.send(np.zeros(0), ends=True, zeros=160)["text"] == expected
    wait_until(lambda: metrics_of(mortal.metrics_url)["conch_streams_resumed_total"] == resumed + 1)
    wait_until(lambda: not metrics_of(mortal.metrics_url)["conch_component_streams"])
