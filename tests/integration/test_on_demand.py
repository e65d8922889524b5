"""A server that loads at its start what requests without options need, and the rest later."""

import os
import signal
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from logged import server_log
from repositories import repositories_with
from waiting import wait_until

from conch.client import Client
from conch.launcher import ServerConfig, TritonServer
from conch.processes import model_processes
from conch.wire.entry_points import ENTRY_POINTS, SYNTHESIS
from conch.wire.errors import ComponentError
from conch.wire.needs import components_of
from conch.wire.options import RecognitionOptions

pytestmark = pytest.mark.server

AT_START = {
    *ENTRY_POINTS,
    *SYNTHESIS,
    *components_of(RecognitionOptions.parse({})),
    *components_of(RecognitionOptions.parse({}, live=True)),
}
RESCORED = {"rescore": True, "rescorer": "ngram", "nbest": 2}
BROKEN = "inverse_normalizer"
BROKEN_MODEL = """
class TritonPythonModel:
    def initialize(self, args):
        raise ValueError("the grammars are torn")
"""


@pytest.fixture(scope="module")
def lines() -> Iterator[list[str]]:
    """The lines of the server's log."""
    with server_log() as found:
        yield found


@pytest.fixture(scope="module")
def growing(tmp_path_factory, lines: list[str]) -> Iterator[TritonServer]:
    """A server of Conch's models, one of which cannot be loaded."""
    repositories = repositories_with(tmp_path_factory.mktemp("on_demand"), {})
    (repositories[1] / BROKEN / "1" / "model.py").write_text(BROKEN_MODEL)
    config = ServerConfig(
        model_repositories=repositories, on_demand=True, warm_up=True, stop_timeout_s=8
    )
    running = TritonServer(config)
    with running, running.healing():
        yield running


@pytest.fixture
def client(growing: TritonServer) -> Iterator[Client]:
    with Client(f"grpc://{growing.grpc_url}", timeout_s=120) as client:
        yield client


def live_text(client: Client, waveform: np.ndarray, **options: Any) -> str:
    with client.live(**options) as stream:
        stream.send(waveform)
        return stream.finish().text


def test_requests_without_options_need_what_was_loaded_at_the_start(growing, client, waveform):
    assert set(growing.models()) == AT_START
    assert "burning bright in the forest" in client.transcribe(waveform).text.lower()
    assert "burning bright in the forest" in live_text(client, waveform).lower()
    assert set(growing.models()) == AT_START
    assert not AT_START.intersection(growing.on_demand)


def test_eight_first_requests_load_a_component_once(growing, client, waveform, lines):
    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(lambda _: client.transcribe(waveform, **RESCORED), range(8))]
    assert {"rescorer" in transcript.path for transcript in found} == {True}
    assert len({transcript.text for transcript in found}) == 1
    assert set(growing.models()) == {*AT_START, "rescorer"}
    assert sum("successfully loaded 'rescorer'" in line for line in lines) == 1


def test_a_component_that_was_loaded_later_is_healed(growing, client, waveform):
    (process,) = (
        process for process, model in model_processes(growing.pid).items() if model == "rescorer"
    )
    os.kill(process, signal.SIGKILL)
    assert "rescorer" in client.transcribe(waveform, **RESCORED).path
    wait_until(lambda: growing.heals["rescorer"] == 1)


def test_a_live_stream_loads_what_it_needs(growing, client, waveform):
    options = {"mode": "two_pass", "decoder": "ctc"}
    assert "burning bright" in live_text(client, waveform, **options).lower()
    needed = components_of(RecognitionOptions.parse(options, live=True))
    assert set(growing.models()) == {*AT_START, "rescorer", *needed}


def test_one_that_cannot_be_loaded_is_an_error_of_its_requests_alone(
    growing, client, waveform, lines
):
    expected = rf"^model {BROKEN} cannot be loaded: .*ValueError: the grammars are torn; see the "
    with ThreadPoolExecutor(3) as pool:
        failing = [pool.submit(client.transcribe, waveform, itn=True) for _ in range(2)]
        other = pool.submit(client.transcribe, waveform)
        for request in failing:
            with pytest.raises(ComponentError, match=expected):
                request.result()
        assert "burning bright in the forest" in other.result().text.lower()
    ready = f"http://{growing.http_url}/v2/health/ready"
    with urllib.request.urlopen(ready, timeout=5) as answer:
        assert answer.status == 200
    assert lines.count(f"component {BROKEN} is being loaded: a request needs it") == 1
    assert growing.heals[BROKEN] == 0
