"""The GPU's configs on a real server, with their models on the CPU: all but the device holds."""

import contextlib
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as http
from recordings import Recording, wer

from conch.client import Client
from conch.launcher import ServerConfig, TritonServer

ROOT = Path(__file__).parents[2]
ON_CPU = {
    '"float16"': '"auto"',
    # Two cores have no use for more processes, and a start would take long.
    r"KIND_\w+ count: \d": "KIND_CPU count: 1",
    # Nothing of the configs depends on them, and each takes seconds and much memory to load.
    '"graph" value { string_value: ""': '"graph" value { string_value: "none"',
    '"language_model" value { string_value: ""': '"language_model" value { string_value: "none"',
}

pytestmark = [pytest.mark.server, pytest.mark.nightly]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    repositories = [folder / name for name in ("bls_models", "component_models")]
    for repository in repositories:
        shutil.copytree(ROOT / repository.name, repository)
    for path in folder.glob("component_models/*/**/*.pbtxt"):
        text = path.read_text()
        for there, here in ON_CPU.items():
            text = re.sub(there, here, text)
        path.write_text(text)
    with TritonServer(ServerConfig(repositories, model_config="gpu")) as server:
        yield server.http_url


def test_the_server_runs_the_configs_for_gpus(url):
    with contextlib.closing(http.InferenceServerClient(url)) as triton:
        config = triton.get_model_config("ctc_encoder")
    assert config["max_batch_size"] == 64
    assert config["parameters"]["max_batch_s"] == {"string_value": "600"}


def test_many_at_once_share_executions_and_are_all_answered(url, recordings: list[Recording]):
    def said(item: Recording, decoder: str) -> str:
        with Client(url) as client:
            return client.transcribe(item.path, decoder=decoder).text

    twice = recordings * 2
    with ThreadPoolExecutor(6) as pool:
        for decoder, worst in (("attention", 0.2), ("ctc", 0.5)):
            texts = pool.map(said, twice, [decoder] * len(twice))
            rates = [wer(item.text, text) for item, text in zip(twice, texts, strict=True)]
            assert np.mean(rates) < worst
    with contextlib.closing(http.InferenceServerClient(url)) as triton:
        (stats,) = triton.get_inference_statistics("attention_encoder")["model_stats"]
    assert stats["execution_count"] < stats["inference_stats"]["success"]["count"]


def test_streams_at_once_are_answered(url, recordings: list[Recording]):
    def said(item: Recording) -> str:
        waveform = item.waveform()
        with Client(url) as client, client.live(decoder="ctc") as stream:
            for start in range(0, len(waveform), 10_240):
                stream.send(waveform[start : start + 10_240])
            return stream.finish().text

    with ThreadPoolExecutor(6) as pool:
        rates = [
            wer(item.text, text)
            for item, text in zip(recordings, pool.map(said, recordings), strict=True)
        ]
    assert np.mean(rates) < 0.6
