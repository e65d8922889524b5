"""Punctuates the text of a recogniser that writes none."""

from conch.families.punctuation import declaration
from conch.recognition.hooks import TextRewriter
from conch.wire.options import RecognitionOptions


class Punctuator(TextRewriter):
    """Asks the punctuator only where the recogniser has not done its work."""

    component = declaration.PUNCTUATOR.name
    option = "punctuate"

    def is_asked(self, options: RecognitionOptions, *, is_punctuated: bool) -> bool:
        """See `TextRewriter.is_asked`."""
        return options.punctuate and not is_punctuated


PUNCTUATOR = Punctuator()
