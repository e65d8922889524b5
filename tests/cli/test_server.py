"""The server of a command: its flags, and which models one of its own has."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from whisper_toys import whisper_toy

from conch.bench.header import without_secrets
from conch.cli import build_parser, main
from conch.cli.server import config_for, given_server
from conch.client.endpoint import KEY_VARIABLE
from conch.families import decoders
from conch.families.moonshine import PACKAGE
from conch.launcher import loaded_models
from conch.wire.errors import ConfigError

BENCH = ["--manifest", "m.tsv"]
COMMANDS = [
    ["transcribe", "a.wav"],
    ["stream", "a.wav"],
    ["bench", "offline", *BENCH],
    ["bench", "live", *BENCH],
]


@pytest.fixture(autouse=True)
def _without_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)


def parsed(*arguments: str) -> argparse.Namespace:
    return build_parser().parse_args(arguments)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_every_command_with_a_server_takes_a_key_and_headers(command: list[str]) -> None:
    args = parsed(*command, "--api-key", "k", "--header", "X-One: a: b", "--header=x-two:c")
    expected = {"authorization": "Bearer k", "x-one": "a: b", "x-two": "c"}
    assert given_server(args) == (expected, {})
    assert given_server(parsed(*command)) == ({}, {})


def test_a_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "k")
    assert given_server(parsed("stream", "a.wav"))[0] == {"authorization": "Bearer k"}


@pytest.mark.parametrize("header", ["s3cret", "X Team: s3cret", "X-Team: s3cret\n"])
def test_a_wrong_header_is_wrong_usage_that_repeats_no_value(
    header: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in COMMANDS:
        with pytest.raises(SystemExit, match=r"^2$"):
            main([*command, "--header", f"{header}\x01"])
        said = capsys.readouterr().err
        assert "header" in said
        assert "s3cret" not in said


def test_a_report_hides_keys() -> None:
    typed = "bench --api-key k --header=X: --api-k k --url u --header k"
    shown = "bench --api-key *** --header=*** --api-k *** --url u --header ***"
    assert without_secrets(typed.split()) == shown.split()


MOONSHINE, WHISPER = (set(decoders()[name].components) for name in ("moonshine", "attention"))


@pytest.mark.parametrize(
    ("options", "models"),
    [
        ({}, {"vad", *MOONSHINE}),
        ({"prompt": "Prynne"}, {"vad", *WHISPER}),
        ({"decoder": "ctc", "vad": False}, {"ctc_encoder", "ctc_decoder"}),
        ({"rescore": True}, {"vad", *MOONSHINE, "neural_rescorer"}),
    ],
)
def test_it_has_what_the_options_need(options: Mapping[str, Any], models: set[str]) -> None:
    assert set(config_for([options]).models) == {"speech", *models}


def test_it_has_what_all_requests_need() -> None:
    config = config_for([{}, {"decoder": "attention"}], others=["speech_stream"])
    assert set(config.models) == {"speech", "speech_stream", "vad", *MOONSHINE, *WHISPER}
    assert {"ctc_streaming_encoder", *MOONSHINE} <= set(config_for([{}], live=True).models)


def test_a_named_model_is_one_of_a_running_server(tmp_path: Path) -> None:
    folder = whisper_toy(tmp_path / "toy")
    with pytest.raises(ConfigError, match=f"give its --url. For .*: --whisper {folder}$"):
        config_for([{"model": str(folder)}])
    with pytest.raises(ConfigError, match=r"--model mine names a model .* and give its --url$"):
        config_for([{"model": "mine"}])


def test_a_step_that_does_not_ship_is_one_of_a_running_server() -> None:
    with pytest.raises(ConfigError, match=r"'post' names the model mine, .* --add-model-rep"):
        config_for([{"post": "inverse_normalizer,mine"}])
    assert "inverse_normalizer" in config_for([{"post": "inverse_normalizer"}]).models


def test_weights_that_are_chosen_choose_the_decoder(tmp_path: Path) -> None:
    folder = str(whisper_toy(tmp_path / "toy"))
    config = config_for([{}], {"whisper": folder})
    assert set(config.models) == {"speech", "vad", *WHISPER}
    assert config.weights == {"whisper": folder}
    assert set(config_for([{"decoder": "moonshine"}]).models) >= MOONSHINE


def test_weights_that_are_not_installed_are_named_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = replace(PACKAGE, module="no_such_package")
    monkeypatch.setattr(loaded_models, "optional", lambda: dict.fromkeys(MOONSHINE, package))
    assert set(config_for([{}, {"rescore": True}]).models) >= WHISPER
    assert capsys.readouterr().err.count("another decoder takes its place") == 1
    assert set(config_for([{"decoder": "moonshine"}]).models) >= MOONSHINE
    assert not capsys.readouterr().err


def test_weights_that_are_not_there_are_named() -> None:
    with pytest.raises(ConfigError, match="no-such"):
        config_for([{}], {"whisper": "/no-such"})
