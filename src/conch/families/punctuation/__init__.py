"""Punctuation and capitals for a text that has none."""

from dataclasses import dataclass

from conch.families.family import Family, Rewriter
from conch.families.options import option
from conch.families.text_step import text_step

PUNCTUATOR = text_step("punctuator", "punctuation and capitals", "Punctuation")


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
