"""A server that stops answers what it has begun: with the text, or with a word to send it again."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.http as http
from waiting import wait_until

from conch.client import Client
from conch.launcher import ServerConfig, TritonServer
from conch.wire.errors import OverloadedError
from conch.wire.needs import components_of_path
from conch.wire.result import Transcript

pytestmark = pytest.mark.server


@pytest.mark.nightly
def test_recordings_in_flight_are_told_that_the_server_stops(recordings) -> None:
    waveform = recordings[0].waveform()
    minutes = np.tile(waveform, 6 * 60 * 16_000 // len(waveform))
    models = ("speech", *components_of_path("attention"))

    def asked(url: str) -> Transcript | Exception:
        with Client(url) as client:
            try:
                return client.transcribe(minutes)
            except Exception as error:
                return error

    with TritonServer(ServerConfig(models=models, stop_timeout_s=30)) as server:
        url = f"grpc://{server.grpc_url}"

        def has_begun() -> bool:
            (stats,) = triton.get_inference_statistics("attention_encoder")["model_stats"]
            return stats["inference_count"] > 2

        with ThreadPoolExecutor(2) as pool:
            asking = [pool.submit(asked, url) for _ in range(2)]
            with http.InferenceServerClient(server.http_url) as triton:
                wait_until(has_begun, 60)
            server.stop()
            answers = [item.result() for item in asking]
    assert [type(answer) for answer in answers] == [OverloadedError] * 2, answers
    assert all("the server is stopping" in str(answer) for answer in answers)
