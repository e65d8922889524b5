"""A family for tests: one decoder, and its hooks."""

from conch.families.family import Decoder, Family, FamilyHooks

FAMILY = Family(
    name="toy",
    title="Toy",
    decoders=(
        Decoder(
            name="toy",
            components=("toy_encoder", "toy_decoder"),
            live=("toy_encoder", "toy_decoder"),
            writes_punctuation=True,
            weights={("ngram",): {"lm": 1.0}},
        ),
    ),
    hooks=FamilyHooks(
        recognisers={"toy": "tests.families.toy.recogniser:TOY"},
        first_passes={"toy": "tests.families.toy.recogniser:ToyFirstPass"},
    ),
)
