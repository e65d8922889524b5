"""What inverse text normalisation declares: its component, and what asks for it."""

from dataclasses import dataclass

from conch.families.family import Component, Family, Need, Rewriter
from conch.families.options import option
from conch.families.text_step import INPUTS, OUTPUTS

INVERSE_NORMALIZER = Component(
    name="inverse_normalizer",
    role="numbers, dates and amounts in digits",
    title="Numbers",
    step="write",
    inputs=INPUTS,
    outputs=OUTPUTS,
)


@dataclass(frozen=True, kw_only=True)
class InverseNormalizerOptions:
    """Options of inverse text normalisation."""

    itn: bool = option(
        False,
        "inverse text normalisation: numbers, dates and amounts in digits, $21.50 for twenty one "
        "dollars fifty",
    )


FAMILY = Family(
    name="inverse_normalizer",
    title="Inverse text normalisation",
    components=(INVERSE_NORMALIZER,),
    options=InverseNormalizerOptions,
    needs=(
        Need(
            components=("inverse_normalizer",),
            when={"itn": True},
            reason="itn=true",
            purpose="text",
        ),
    ),
    rewriters=(Rewriter(component="inverse_normalizer", option="itn"),),
)
