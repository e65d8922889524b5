"""What Paraformer declares: one component, from the waveform to the text."""

from conch.families.family import Component, Decoder, Family, FamilyHooks, Tensor, WeightsPackage
from conch.families.options import GIVEN, Above, Rule
from conch.families.search.contract import SEGMENT

NAME = "paraformer"

FAMILY = Family(
    name=NAME,
    title="Paraformer",
    components=(
        Component(
            name=NAME,
            role="waveform to text",
            title="Paraformer",
            step="decode",
            inputs=(SEGMENT,),
            outputs=(
                Tensor("hypotheses", "BYTES", (1,), "the text; it may be empty"),
                Tensor("scores", "FP32", (1,), "sum of the log probabilities of its units"),
                Tensor("words", "BYTES", (-1,), "words of the text"),
                *(
                    Tensor(name, "FP32", (-1,), "seconds from the segment's start")
                    for name in ("word_starts", "word_ends")
                ),
                Tensor(
                    "word_confidences",
                    "FP32",
                    (-1,),
                    "geometric mean of the probabilities of the word's units",
                ),
            ),
            parameters={"language": str},
            is_one_by_one=True,
            package=WeightsPackage(NAME, "", "", "conch serve --paraformer FOLDER"),
        ),
    ),
    decoders=(
        Decoder(
            name=NAME,
            components=(NAME,),
            default_when={"task": "transcribe", "languages": "", "prompt": ""},
            detects_language=True,
            is_rolling=True,
        ),
    ),
    rules=(
        Rule(
            {"beam_size": Above(1), "decoder": NAME},
            "option 'beam_size' takes 1 with decoder paraformer, which finds one text; sent: "
            "{beam_size}",
        ),
        Rule(
            {"hotwords": GIVEN, "decoder": NAME},
            "option 'hotwords' does not go with decoder paraformer, which has no search",
        ),
        Rule(
            {"rescore": True, "decoder": NAME},
            "option 'rescore' does not go with decoder paraformer, which finds one text",
        ),
    ),
    warm_ups=({"decoder": NAME},),
    hooks=FamilyHooks(recognisers={NAME: "conch.families.paraformer.recogniser:PARAFORMER"}),
)
