"""Writes numbers, dates and amounts in digits."""

from conch.families.inverse_normalizer import declaration
from conch.recognition.hooks import TextRewriter
from conch.wire.options import RecognitionOptions


class InverseNormalizer(TextRewriter):
    """Asks the inverse normaliser for every text."""

    component = declaration.INVERSE_NORMALIZER.name
    option = "itn"

    def is_asked(self, options: RecognitionOptions, *, is_punctuated: bool) -> bool:
        """See `TextRewriter.is_asked`."""
        return options.itn


NORMALIZER = InverseNormalizer()
