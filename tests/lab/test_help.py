"""Every command of the laboratory explains itself."""

import argparse

import pytest

from lab.__main__ import build_parser

COMMANDS = (
    *("offline", "live", "paths", "names", "speakers", "synthesis", "endpoints", "orchestration"),
    *("growth", "gateway", "fairness", "first", "chaos", "bulk", "perf-analyzer-input", "cost"),
    *("memory", "in-flight", "same-text", "sherpa-onnx-live", "zipformer"),
)

NO_MANIFEST = (
    *("gateway", "fairness", "chaos", "bulk", "perf-analyzer-input", "cost", "memory"),
    "zipformer",
)


def test_every_command_has_a_help() -> None:
    (commands,) = (
        action
        for action in build_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    assert tuple(commands.choices) == COMMANDS
    for name, parser in commands.choices.items():
        assert parser.format_help().startswith(f"usage: python -m lab {name} ")


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in NO_MANIFEST])
def test_a_command_without_a_manifest_is_wrong_usage(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        build_parser().parse_args([command])
    assert refused.value.code == 2
    assert "--manifest" in capsys.readouterr().err
