"""Punctuation and capitals for a text that has none."""

from dataclasses import dataclass

from conch.families.family import ComponentInfo, Family, Rewriter
from conch.families.options import option

PUNCTUATOR = ComponentInfo(name="punctuator", title="Punctuation", step="write")


@dataclass(frozen=True, kw_only=True)
class PunctuationOptions:
    punctuate: bool = option(
        False,
        "punctuation and case for the text of the CTC models; Whisper and Moonshine write them "
        "anyway",
    )


FAMILY = Family(
    name="punctuation",
    title="Punctuation",
    components=(PUNCTUATOR,),
    options=PunctuationOptions,
    rewriters=(Rewriter(component=PUNCTUATOR.name, option="punctuate", adds_punctuation=True),),
)
