"""What help states is taken, and nothing that a command adds itself is refused."""

import argparse
import re
from collections.abc import Iterator

import pytest

from conch.catalogue.models import KINDS, components_chosen, known_model
from conch.cli import build_parser
from conch.cli.serve import EPILOG, models_named
from conch.cli.server import WEIGHTS
from conch.launcher.warmth import requests_for
from conch.wire.formats import FORMATS, with_options_of
from conch.wire.needs import PATHS, components_to_serve
from conch.wire.options import RecognitionOptions, all_options

KIND_NAMES = ["", *KINDS]
"""Kinds of which somebody chooses a model, and none."""


def chosen(kind: str) -> set[str]:
    return components_chosen([kind] if kind else [])


def stated_choices() -> Iterator[tuple[str, str, str]]:
    """Yield command, option of a request, and a word that its flag states."""
    (commands,) = (it for it in build_parser()._actions if isinstance(it.choices, dict))
    assert isinstance(commands, argparse._SubParsersAction)
    for command in ("transcribe", "bulk", "stream"):
        for action in commands.choices[command]._actions:
            if action.dest in all_options() and action.choices:
                for word in action.choices:
                    yield command, action.dest, word


@pytest.mark.parametrize(("command", "option", "word"), [*stated_choices()])
def test_every_choice_is_taken(command: str, option: str, word: str) -> None:
    RecognitionOptions.parse({"speakers": "auto", option: word}, live=command == "stream")


def test_every_option_with_choices_is_among_them() -> None:
    assert {("stream", "mode", "two_pass"), ("transcribe", "decoder", "none")} <= {
        *stated_choices()
    }


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_every_path_is_served_whatever_model_is_chosen(kind: str) -> None:
    stated = re.findall(r"^  (\w[\w, ]*?)  +vad, |^  (two_pass)", EPILOG, re.MULTILINE)
    paths = {name for names in stated for name in ", ".join(names).split(", ") if name}
    assert paths == PATHS.keys()
    for path in paths:
        models = models_named(path, chosen(kind))
        assert {"speech", "vad"} < set(models)
        # Those are also the models of the requests that warm them up.
        assert requests_for(models)


@pytest.mark.parametrize("kind", KIND_NAMES)
@pytest.mark.parametrize("format", FORMATS)
def test_what_a_format_needs_is_taken_whatever_model_is_chosen(kind: str, format: str) -> None:
    assert "vad" in components_to_serve(with_options_of([format], {}), chosen=chosen(kind))


def test_every_model_that_a_flag_names_is_known() -> None:
    named = re.findall(r"^--(\S+) .*?(?:such as ([\w.]+)).*\(default: ([\w.]+)", WEIGHTS, re.M)
    assert {flag for flag, *_ in named} == {"moonshine", "whisper"}
    for flag, example, default in named:
        assert known_model(KINDS[flag], example)
        assert known_model(KINDS[flag], default)
