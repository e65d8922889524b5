"""What the families declare is whole, and agrees with itself."""

import subprocess
import sys
from collections import Counter
from dataclasses import fields, is_dataclass

import pytest

from conch.families import FAMILIES, all_components, decoders, traits
from conch.families.family import Family
from conch.families.options import Above, Below, Other, When
from conch.recognition.hooks import recogniser_of
from conch.wire.option_values import describe, words_of
from conch.wire.options import RULES, RecognitionOptions, all_options, all_rules

DEFAULTS = RecognitionOptions.parse({})


def names_of(family: Family) -> set[str]:
    return {item.name for item in fields(family.options)} if family.options else set()


def check_condition(when: When) -> None:
    """Check that the names are known, and that the values are some that the options may have."""
    for name, wanted in when.items():
        now = DEFAULTS.value(name)
        match wanted:
            case Above(limit):
                assert isinstance(DEFAULTS.value(limit) if isinstance(limit, str) else limit, int)
                assert isinstance(now, int | float)
            case Below(option):
                assert isinstance(now, int | float) and DEFAULTS.value(option)
            case _:
                one = wanted.value if isinstance(wanted, Other) else wanted
                values = one if isinstance(one, tuple) else (one,)
                words = words_of(all_options()[name]) if name in all_options() else ()
                for value in values:
                    assert type(value) is type(now), name
                    assert not words or value in words, f"{name}={value}"


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_familys_conditions_name_what_there_is(family: Family) -> None:
    for rule in family.rules:
        check_condition(rule.when)
    for need in family.needs:
        check_condition(need.when)
        assert set(need.components) <= set(traits())
    for hook in (*family.hooks.score_texts, *family.hooks.after_recording):
        check_condition(hook.when)
    for rewriter in family.rewriters:
        assert rewriter.component in traits() and rewriter.option in all_options()
    for decoder in family.decoders:
        check_condition(decoder.live_when)
        assert {*decoder.components, *decoder.live} <= set(traits())
        assert all(all_options()[name].metadata["decoders"] for name in decoder.takes)
        for preset in (decoder.defaults, decoder.rescored, *decoder.presets.values()):
            assert set(preset) <= set(all_options())
    assert set(family.rescorers.values()) <= set(traits())


def test_a_recogniser_is_what_its_decoder_declares() -> None:
    for decoder in decoders().values():
        recogniser = recogniser_of(RecognitionOptions(decoder=decoder.name))
        assert recogniser.encoder == "".join(decoder.components[:1])
        assert bool(decoder.first_pass) == bool(decoder.live)


def test_every_rule_is_an_error_of_an_option() -> None:
    for rule in RULES:
        check_condition(rule.when)
    values = {name: DEFAULTS.value(name) for name in all_options()}
    for rule in all_rules():
        name = rule.message.split("'")[1]
        assert rule.message.startswith(f"option '{name}' ") and name in all_options()
        assert "{" not in rule.message.format_map(values)


def test_a_name_means_one_thing() -> None:
    of_every_path = set(all_options()) - {name for item in FAMILIES for name in names_of(item)}
    for names in (
        [*of_every_path, *(name for family in FAMILIES for name in names_of(family))],
        [component.name for component in all_components()],
        [family.name for family in FAMILIES],
        [decoder.name for family in FAMILIES for decoder in family.decoders],
        [value for family in FAMILIES for value in family.rescorers],
    ):
        assert [name for name, number in Counter(names).items() if number > 1] == []
    assert len(of_every_path) > 25


def test_options_are_frozen_and_all_have_defaults_that_they_take() -> None:
    for family in FAMILIES:
        if family.options:
            assert is_dataclass(family.options)
            assert hash(family.options()) == hash(family.options())
    for name, item in all_options().items():
        if item.default is not None:
            assert RecognitionOptions.parse({name: item.default}).value(name) is not None, name
        assert describe(item)


def test_a_declaration_is_imported_without_any_model() -> None:
    code = (
        "import sys, conch.families;"
        "print(*sorted({name.split('.')[0] for name in sys.modules}"
        " & {'numpy', 'onnxruntime', 'ctranslate2', 'torch', 'scipy', 'aiohttp', 'tritonclient'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
