"""A family is a folder and one line: all that is derived from declarations knows it then."""

import argparse
import json
from pathlib import Path

import numpy as np
import pytest
from plain_components import PlainComponents
from plain_recognizer import recognized
from plain_streams import audio
from project_scripts import script

import conch.families
from conch.cli.option_flags import add_option_flags, given_options
from conch.families import FAMILIES, traits
from conch.gateway.openapi import make_document
from conch.launcher import loaded_models
from conch.launcher.warmth import requests_for
from conch.wire.errors import OptionError
from conch.wire.named_models import no_text_steps
from conch.wire.needs import components_for, components_of, missing
from conch.wire.option_values import options_of_text
from conch.wire.options import RecognitionOptions, all_options
from conch.wire.result import Transcript
from tests.families.toy_counter import FAMILY, CounterOptions

DEFAULT = set(components_of(RecognitionOptions.parse({})))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conch.families, "FAMILIES", (*FAMILIES, FAMILY))


def test_its_options_have_types_and_defaults() -> None:
    options = RecognitionOptions.parse({"count_most": 3, "count_word": "sea", "nbest": 3})
    assert options.of(CounterOptions) == CounterOptions(count_most=3, count_word="sea")
    assert options.nbest == 3
    assert RecognitionOptions.parse({}).of(CounterOptions) == CounterOptions()
    assert RecognitionOptions().of(CounterOptions) == CounterOptions()


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"count_most": 10}, "option 'count_most' takes an integer from 0 to 9; sent: 10"),
        ({"count_most": True}, "option 'count_most' takes an integer from 0 to 9; sent: True"),
        (
            {"count_most": 1, "count_word": "s" * 21},
            "option 'count_word' takes at most 20 characters; sent: 21",
        ),
        ({"count_word": "sea"}, "option 'count_word' goes with count_most; sent: sea"),
        (
            {"count_most": 3, "beam_size": 2},
            "option 'count_most' takes at most beam_size (2); sent: 3",
        ),
        ({"count_mots": 3}, "unknown option 'count_mots'; did you mean 'count_most'?"),
    ],
)
def test_what_is_wrong_is_refused_by_name(sent: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError) as refused:
        RecognitionOptions.parse(sent)
    assert str(refused.value) == message


def test_nobody_knows_the_options_of_a_family_that_is_not_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conch.families, "FAMILIES", FAMILIES)
    with pytest.raises(OptionError, match=r"^unknown option 'count_most'"):
        RecognitionOptions.parse({"count_most": 3})


def test_its_options_are_flags_and_fields_of_a_form() -> None:
    parser = argparse.ArgumentParser()
    add_option_flags(parser)
    text = " ".join(parser.format_help().split())
    assert "--count-most N count a word up to this number; 0 is not at all (an integer" in text
    args = parser.parse_args(["--count-most", "3", "--count-word", "sea"])
    assert given_options(args) == {"count_most": 3, "count_word": "sea"}
    assert options_of_text({"count_most": "3"}, all_options()) == {"count_most": 3}


def test_its_options_are_in_the_docs() -> None:
    tables = script("tables")
    title, _, row, other = tables.options_list().splitlines()[-4:]
    assert title == "**Word counter**"
    assert row.startswith("- `count_most` (0 to 9; default 0): count a word up to ")
    assert other.startswith("- `count_word` (")


def test_its_options_are_in_the_openapi_document() -> None:
    document = json.dumps(make_document())
    assert '"count_most": {"type": "integer", "minimum": 0, "maximum": 9' in document
    assert '{"name": "count_word", "in": "query"' in document


def test_its_component_is_needed_where_an_option_asks_for_it() -> None:
    asked = RecognitionOptions.parse({"count_most": 3, "beam_size": 5})
    assert components_of(asked)["word_counter"] == "count_most"
    assert "word_counter" not in DEFAULT
    assert "and count_most needs it: its weights come with pip" in str(missing("word_counter"))
    assert "word_counter" in no_text_steps()
    with pytest.raises(OptionError, match=r"^option 'post' .* word_counter is none"):
        RecognitionOptions.parse({"post": "word_counter"})


def test_its_component_is_listed_where_it_stands_on_the_path() -> None:
    listed = components_for(RecognitionOptions.parse({"count_most": 3, "beam_size": 5}))
    (item,) = [item for item in listed if item.name == "word_counter"]
    assert (item.title, item.family, item.step) == ("Counter", "toy_counter", "rescore")
    assert item.needed == "count_most"
    steps = [item.step for item in listed]
    assert steps == sorted(steps, key=list(dict.fromkeys(steps)).index)


def test_its_component_is_warmed_up() -> None:
    assert {"count_most": 1} in requests_for({*DEFAULT, "word_counter"})
    assert {"count_most": 1} not in requests_for(DEFAULT)


def test_without_its_weights_its_component_is_left_out(tmp_path: Path) -> None:
    config = tmp_path / "word_counter" / "config.pbtxt"
    config.parent.mkdir()
    config.write_text('parameters { key: "model" value { string_value: "" } }')
    lacking = loaded_models.without_weights([tmp_path], "")
    wanted = "no word list: set 'model', or install words: pip install words==1.0"
    assert lacking == {"word_counter": wanted}


def test_its_component_works_as_it_is_declared_to() -> None:
    component = traits()["word_counter"]
    assert (component.is_one_by_one, component.hang_factor) == (True, 3.0)


class CountingComponents(PlainComponents):
    def word_counter(self, inputs, parameters):
        (word,) = inputs["word"]
        counts = [min(text.split().count(word), parameters["at_most"]) for text in inputs["texts"]]
        return {"counts": np.array(counts, np.int32)}


def recognised(**options: object) -> tuple[Transcript, CountingComponents]:
    components = CountingComponents()
    return recognized(components, audio("..11......55......11...."), **options), components


def test_its_hook_works_on_the_whole_recording_with_its_options_and_its_component() -> None:
    found, components = recognised(count_most=3, count_word="0.10", beam_size=5)
    assert found.text == "spoken 0.10 0 spoken 0.50 0 spoken 0.10 0"
    assert found.extra == {"counts": [1, 0, 1]}
    assert components.calls.count("word_counter") == 1
    limited, _ = recognised(count_most=1, count_word="spoken")
    assert limited.extra == {"counts": [1, 1, 1]}


def test_its_hook_is_not_called_where_its_option_is_not_sent() -> None:
    found, components = recognised()
    assert (found.extra, "word_counter" in components.calls) == (None, False)
