"""Servers that load only some of the models."""

import contextlib
import json
import urllib.request

import numpy as np
import pytest
import tritonclient.grpc as grpc
import tritonclient.http as http

from conch.catalogue.models import KINDS, find
from conch.cli.server import server_url
from conch.client import Client
from conch.gateway import GatewayConfig, GatewayService
from conch.launcher import ServerConfig, TritonServer
from conch.launcher.repositories import model_names, shipped_repositories
from conch.processes import model_processes
from conch.wire.errors import ConchError, MissingModelError, OptionError

pytestmark = pytest.mark.server

LOADED = ("attention_decoder", "attention_encoder", "speech", "speech_stream", "vad")
MINE = ("attention_decoder.mine", "attention_encoder.mine")

CTC_ENCODER_REASONS = "decoder=ctc or decoder=wfst or ctc_rescore=true needs it"


@pytest.fixture(scope="module")
def lean_server():
    # --whisper with the default model: all that follows runs on the configs that it writes.
    chosen = {"weights": {"whisper": "tiny.en"}, "named": {"mine": "tiny.en"}}
    config = ServerConfig(models=LOADED, **chosen, stop_timeout_s=8)
    with TritonServer(config) as running:
        yield running


def test_only_the_named_models_are_loaded(lean_server):
    assert set(lean_server.models()) == {*LOADED, *MINE}
    assert set(model_processes(lean_server.pid).values()) == {*LOADED, *MINE}


def test_a_request_chooses_a_model_by_its_name(lean_server, waveform):
    url = f"grpc://{lean_server.grpc_url}"
    with Client(url) as client:
        own = client.transcribe(waveform, decoder="attention")
        found = client.transcribe(waveform, model="mine")
        assert found.text == own.text
        assert found.path == ("vad", "attention_encoder.mine", "attention_decoder.mine")
        (*_, last) = client.stream(waveform, model="mine")
        assert last.path == found.path
        with pytest.raises(OptionError, match="'model' takes mine on this server; sent: 'other'"):
            client.transcribe(waveform, model="other")
        with pytest.raises(OptionError, match="takes attention with model mine; sent: 'ctc'"):
            client.transcribe(waveform, model="mine", decoder="ctc")
    config = GatewayConfig(servers=(url,), port=0)
    with GatewayService(config) as gateway, Client(gateway.url) as client:
        assert client.transcribe(waveform, model="mine").path == found.path
        with pytest.raises(ConchError, match=r"no model 'other'; this server has .*mine, and"):
            client.transcribe(waveform, model="other")
        with urllib.request.urlopen(f"{gateway.url}/v1/models/mine") as answer:
            assert json.load(answer)["id"] == "mine"


def test_both_halves_of_whisper_read_the_folder_that_was_asked_for(lean_server):
    with contextlib.closing(http.InferenceServerClient(lean_server.http_url)) as client:
        for model in ("attention_encoder", "attention_decoder"):
            parameters = client.get_model_config(model)["parameters"]
            assert parameters["model"]["string_value"] == str(find(KINDS["whisper"], "tiny.en"))


@pytest.mark.parametrize(
    ("options", "model", "said"),
    [
        ({"decoder": "ctc"}, "ctc_encoder", f"is not .* and {CTC_ENCODER_REASONS}"),
        ({"rescore": True}, "rescorer", "is not .* and rescore=true needs it"),
        ({"accuracy": "best"}, "rescorer, ctc_encoder, ctc_decoder", "are not .* accuracy=best"),
    ],
)
def test_a_request_that_needs_another_model_says_which(lean_server, waveform, options, model, said):
    http, grpc_url = lean_server.http_url, f"grpc://{lean_server.grpc_url}"
    expected = f"^models? {model} {said}: .*conch serve --models"
    for url in (http, grpc_url):
        with Client(url) as client:
            with pytest.raises(MissingModelError, match=expected) as missing:
                client.transcribe(waveform, **options)
            assert missing.value.model == model.partition(",")[0]
    with Client(grpc_url) as client, pytest.raises(MissingModelError, match=expected):
        list(client.stream(waveform, **options))
    with Client(http) as client:
        assert "burning bright in the forest" in client.transcribe(waveform).text.lower()


def test_so_does_a_batch_and_a_live_stream(lean_server, waveform):
    with Client(lean_server.http_url) as client:
        with pytest.raises(MissingModelError, match=r"^model ctc_encoder is not loaded"):
            client.transcribe_batch([waveform, waveform], decoder="ctc")
        expected = "^model ctc_streaming_encoder .* mode=streaming or mode=two_pass needs it"
        live = client.live(mode="streaming")
        with live as stream, pytest.raises(MissingModelError, match=expected):
            stream.send(waveform)


def test_a_server_of_ones_own_has_what_it_was_asked_for():
    models = ["speech", "vad"]
    with server_url(None, [], others=["vad"]) as url:
        with grpc.InferenceServerClient(url.removeprefix("grpc://")) as triton:
            every = model_names(shipped_repositories())
            assert [name for name in every if triton.is_model_ready(name)] == models
        with Client(url) as client:
            assert client.transcribe(np.zeros(16_000, np.float32)).text == ""
    with (
        grpc.InferenceServerClient(url.removeprefix("grpc://")) as triton,
        pytest.raises(grpc.InferenceServerException, match="UNAVAILABLE"),
    ):
        triton.is_server_live()
