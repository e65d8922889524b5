"""A family that Conch does not ship: it counts how often a text has a word."""

from dataclasses import dataclass

from conch.families.family import (
    ComponentInfo,
    Family,
    FamilyHooks,
    Need,
    RecordingHook,
    WeightsPackage,
)
from conch.families.options import GIVEN, Above, Rule, option

COUNTER = ComponentInfo(
    name="word_counter",
    title="Counter",
    step="rescore",
    is_one_by_one=True,
    hang_factor=3.0,
    package=WeightsPackage("word list", "no_such_package", "words", "pip install words==1.0"),
)


@dataclass(frozen=True, kw_only=True)
class CounterOptions:
    count_most: int = option(0, "count a word up to this number; 0 is not at all", low=0, high=9)
    count_word: str = option("", "the word that is counted", longest=20)


_ASKED = {"count_most": Above(0)}

FAMILY = Family(
    name="toy_counter",
    title="Word counter",
    components=(COUNTER,),
    options=CounterOptions,
    rules=(
        Rule(
            {"count_word": GIVEN, "count_most": 0},
            "option 'count_word' goes with count_most; sent: {count_word}",
        ),
        Rule(
            {"count_most": Above("beam_size")},
            "option 'count_most' takes at most beam_size ({beam_size}); sent: {count_most}",
        ),
    ),
    needs=(Need(components=("word_counter",), when=_ASKED),),
    warm_ups=({"count_most": 1},),
    hooks=FamilyHooks(
        after_recording=(
            RecordingHook(function="tests.families.toy_counter.counter:count", when=_ASKED),
        )
    ),
)
