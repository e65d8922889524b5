"""Inverse text normalisation: numbers, dates and amounts in digits."""

from dataclasses import dataclass

from conch.families.family import ComponentInfo, Family, Rewriter
from conch.families.options import option

INVERSE_NORMALIZER = ComponentInfo(name="inverse_normalizer", title="Numbers", step="write")


@dataclass(frozen=True, kw_only=True)
class InverseNormalizerOptions:
    itn: bool = option(
        False,
        "numbers, dates and amounts in digits: $21.50 for twenty one dollars fifty",
    )


FAMILY = Family(
    name="inverse_normalizer",
    title="Inverse text normalisation",
    components=(INVERSE_NORMALIZER,),
    options=InverseNormalizerOptions,
    rewriters=(Rewriter(component=INVERSE_NORMALIZER.name, option="itn"),),
)
