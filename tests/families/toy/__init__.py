"""A family for tests: one decoder, and its hooks."""

from conch.families.registry import FamilyHooks

TOY_HOOKS = FamilyHooks(
    recognisers={"toy": "tests.families.toy.recogniser:TOY"},
    first_passes={"toy": "tests.families.toy.recogniser:ToyFirstPass"},
)
