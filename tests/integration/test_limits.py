"""Limits, and components that fail or die, on a server of its own."""

import os
import signal
import threading
from collections.abc import Iterator

import numpy as np
import psutil
import pytest
import tritonclient.http as http
from infer_inputs import inputs_of
from repositories import repositories_with

from conch.client import Client
from conch.launcher import ServerConfig, TritonServer
from conch.processes import model_processes
from conch.wire.errors import ComponentError, DeadlineError, InvalidRequestError, OverloadedError

pytestmark = pytest.mark.server

BROKEN_RESCORER = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        error = pb_utils.TritonError("the language model is out of order")
        return [pb_utils.InferenceResponse(error=error) for _ in requests]
"""


@pytest.fixture(scope="module")
def small_server(tmp_path_factory) -> Iterator[TritonServer]:
    """A server of tight limits whose rescorer always fails."""
    limits = {
        "max_requests_in_flight": "2",
        "max_audio_s": "60",
        "max_audio_in_flight_s": "90",
    }
    repositories = repositories_with(tmp_path_factory.mktemp("limits"), {"speech": limits})
    (repositories[1] / "rescorer" / "1" / "model.py").write_text(BROKEN_RESCORER)
    models = ("speech", "vad", "attention_encoder", "attention_decoder", "rescorer")
    # Killed, a component is waited for in vain.
    config = ServerConfig(model_repositories=repositories, models=models, stop_timeout_s=2)
    with TritonServer(config) as running:
        yield running


def test_too_many_requests_are_refused_and_the_admitted_ones_answered(small_server, waveform):
    with http.InferenceServerClient(small_server.http_url, concurrency=12) as client:
        inputs = inputs_of(http, WAV=waveform[np.newaxis])
        pending = [client.async_infer("speech", inputs) for _ in range(12)]
        texts, refusals = [], []
        for request in pending:
            try:
                texts.append(request.get_result().as_numpy("TRANSCRIPTS")[0, 0])
            except Exception as error:
                refusals.append(str(error))
    assert len(texts) >= 2
    assert refusals
    assert all("max_requests_in_flight" in refusal for refusal in refusals)
    assert all(b"burning bright in the forest" in text.lower() for text in texts)


def test_too_long_audio_is_refused(small_server):
    with Client(small_server.http_url) as client:
        silence = np.zeros(61 * 16_000, np.float32)
        with pytest.raises(InvalidRequestError, match=r"61\.0 s long; .* takes at most 60 s"):
            client.transcribe(silence)


def test_more_audio_than_the_server_takes_at_once_is_refused(small_server):
    with Client(small_server.http_url) as client:
        rows = [np.zeros(45 * 16_000 + more, np.float32) for more in (0, 16)]
        with pytest.raises(InvalidRequestError, match=r"has 90\.0 s .* takes at most 90 s"):
            client.transcribe_batch(rows)


def test_who_would_wait_beyond_its_deadline_is_refused_at_once(small_server, waveform):
    minute = np.resize(waveform, 60 * 16_000)
    with Client(small_server.http_url) as client, Client(small_server.http_url) as other:
        first = threading.Thread(target=client.transcribe, args=(minute,))
        first.start()
        refusals = []
        # Before the first request has arrived, the time of others runs out in the components.
        while first.is_alive() and not refusals:
            try:
                other.transcribe(minute, deadline_ms=200)
            except OverloadedError as error:
                refusals.append(error)
            except DeadlineError:
                continue
        first.join()
    (refusal,) = refusals
    assert "would wait for" in str(refusal)
    assert refusal.retry_after_s >= 1


def test_a_refusal_is_an_overload_to_the_client(small_server, waveform):
    with Client(f"grpc://{small_server.grpc_url}") as client:
        outcomes: list[object] = []

        def ask() -> None:
            try:
                outcomes.append(client.transcribe(waveform).text)
            except OverloadedError as error:
                outcomes.append(error)

        threads = [threading.Thread(target=ask) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(outcomes) == 10
    assert any(isinstance(outcome, OverloadedError) for outcome in outcomes)


def test_a_failing_component_fails_the_requests_that_need_it(small_server, waveform):
    with Client(small_server.http_url) as client:
        with pytest.raises(ComponentError, match="rescorer: the language model is out of order"):
            client.transcribe(waveform, rescore=True, nbest=2)
        assert "burning bright in the forest" in client.transcribe(waveform).text.lower()


def test_a_killed_component_that_nobody_replaces_fails_the_requests_that_need_it(
    small_server, waveform
):
    server_process = psutil.Process(small_server.pid)
    decoders = [
        process
        for process, model in model_processes(small_server.pid).items()
        if model == "attention_decoder"
    ]
    assert len(decoders) == 2
    for decoder in decoders:
        os.kill(decoder, signal.SIGKILL)
    with Client(small_server.http_url) as client:
        with pytest.raises(ComponentError, match="process of attention_decoder has died"):
            client.transcribe(waveform, timeout_s=60)
        assert client.transcribe(np.zeros(16_000, np.float32)).text == ""
    assert server_process.is_running()
