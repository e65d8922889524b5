import argparse
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from refusals import Refused

from conch.cli import arguments, main
from conch.cli.serve import _also_as, _welcome, models_named
from conch.wire.errors import ServerError
from conch.wire.hosts import host_port


@pytest.mark.parametrize(
    ("names", "models"),
    [
        ("vad, rescorer", {"vad", "rescorer"}),
        ("attention", {"vad", "attention_encoder", "attention_decoder"}),
        (
            "streaming,ctc_encoder",
            {"vad", "ctc_streaming_encoder", "ctc_streaming_decoder", "ctc_encoder"},
        ),
        ("mine", {"mine"}),
        ("synthesis", {"synthesis", "synthesis_stream", "text_frontend", "acoustic", "vocoder"}),
    ],
)
def test_models_are_named_one_by_one_or_by_path(names: str, models: set[str]) -> None:
    assert set(models_named(names)) == models | {"speech", "speech_stream"}


def test_a_model_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--http-port", "0", "--models", "attention,rescore"]) == 1
    assert capsys.readouterr().err == (
        "conch serve: no model 'rescore' in the model repositories; did you mean rescorer?\n"
    )


def test_a_repository_is_added_to_the_shipped_ones(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "my_filter").mkdir()
    arguments = ["serve", "--http-port", "0", "--add-model-repository", str(tmp_path)]
    assert main([*arguments, "--models", "vad,my_filte"]) == 1
    assert "no model 'my_filte' in the model repositories; did you mean my_filter?" in (
        capsys.readouterr().err
    )
    assert main([*arguments, "--models", "my_filter,inverse_normalize"]) == 1
    assert "did you mean inverse_normalizer?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9000", ("127.0.0.1", 9000)),
        (":9000", ("127.0.0.1", 9000)),
        ("[::1]:9000", ("::1", 9000)),
        ("::1:9000", ("::1", 9000)),
    ],
)
def test_an_address_has_its_host_without_brackets(text: str, address: tuple[str, int]) -> None:
    assert arguments.address(text) == address


@pytest.mark.parametrize("text", ["::1", "a:b:9000", "[::1]", "::1:x"])
def test_an_address_without_a_clear_port_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="HOST:PORT"):
        arguments.address(text)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "2001:db8::1", "some-host.example"])
def test_tritons_ports_stay_on_this_machine(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--http-port", "0", "--host", host]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"conch serve: --host {host} would open Triton's ports to a network")
    assert f"--gateway {host_port(host, 9000)}" in said
    assert "--trust-network" in said


def test_who_trusts_the_network_gets_as_far_as_the_address(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["serve", "--http-port", "0", "--host", "192.0.2.1", "--trust-network"]) == 1
    said = capsys.readouterr().err
    assert "Triton's ports listen on 192.0.2.1 without authentication: any client" in said
    assert "192.0.2.1 is no address of this machine" in said


@pytest.mark.parametrize(
    "flags", [("--keys", "keys.json"), ("--open",), ("--gateway", "0"), ("--max-files", "3")]
)
def test_flags_of_the_gateway_need_it(flags: tuple[str, ...], refused: Refused) -> None:
    said = refused("serve", "--http-port", "0", "--no-gateway", *flags)
    assert f"{flags[0]} is for the gateway, which --no-gateway leaves" in said


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--http-port", "x"), "--http-port: a whole number from 0 to 65535; got 'x'"),
        (("--grpc-port", "99999"), "--grpc-port: a whole number from 0 to 65535; got '99999'"),
        (("--startup-timeout", "0"), "--startup-timeout: a number of seconds above 0; got '0'"),
        (("--model", "x="), "--model: [NAME=]MODEL, as fast=my_folder; got 'x='"),
    ],
)
def test_wrong_usage(flags: tuple[str, ...], message: str, refused: Refused) -> None:
    assert message in refused("serve", *flags)


@pytest.mark.parametrize("names", ["", "all", "attention, all"])
def test_all_models_have_a_name(names: str) -> None:
    assert models_named(names) == ()


def test_a_misspelt_path_is_distinguished_from_a_model():
    with pytest.raises(ServerError, match="no path or model 'two_pas'; did you mean two_pass"):
        models_named("two_pas")


@pytest.mark.parametrize(
    ("weights", "models", "decoder"),
    [
        ({}, ["moonshine_encoder", "moonshine_decoder"], "moonshine"),
        ({}, ["attention_encoder", "attention_decoder"], "attention"),
        ({"transducer": "toy"}, ["transducer_encoder", "transducer_decoder"], "transducer"),
    ],
)
def test_a_further_name_says_whose_text_it_gives(
    weights: dict[str, str], models: list[str], decoder: str
) -> None:
    server: Any = SimpleNamespace(models=lambda: ["speech", "transducer", *models], on_demand=())
    said = _also_as("transducer", weights, server)
    assert said.startswith("transducer (all are speech;")
    assert f"decoder={decoder})" in said


def test_the_printed_addresses_are_urls_that_a_client_takes() -> None:
    server: Any = SimpleNamespace(
        http_url="127.0.0.1:8000",
        grpc_url="127.0.0.1:8001",
        metrics_url="http://127.0.0.1:8002/metrics",
        models=lambda: ["speech"],
        on_demand=("rescorer", "punctuator"),
    )
    text = _welcome(server, "http://127.0.0.1:9000", "this machine", {"Moonshine": "tiny"})
    lines = [line.split() for line in text.splitlines()]
    assert ["gateway", "http://127.0.0.1:9000"] in [line[:2] for line in lines]
    assert ["HTTP", "http://127.0.0.1:8000"] in lines
    assert ["Moonshine", "tiny"] in lines
    assert ["gRPC", "grpc://127.0.0.1:8001"] in lines
    assert ["later", "rescorer,", "punctuator"] in [line[:3] for line in lines]
