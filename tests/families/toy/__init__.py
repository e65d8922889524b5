"""A family for tests: one decoder."""

from conch.families.family import Decoder, Family

FAMILY = Family(
    name="toy",
    title="Toy",
    decoders=(
        Decoder(
            name="toy",
            components=("toy_encoder", "toy_decoder"),
            live=("toy_encoder", "toy_decoder"),
            recogniser="tests.families.toy.recogniser:TOY",
            first_pass="tests.families.toy.recogniser:ToyFirstPass",
            writes_punctuation=True,
            weights={("ngram",): {"lm": 1.0}},
        ),
    ),
)
