"""The flags for the server of a command."""

import argparse

import pytest

from conch.bench.header import without_secrets
from conch.cli import build_parser, main
from conch.cli.server import given_server
from conch.client.endpoint import KEY_VARIABLE

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
