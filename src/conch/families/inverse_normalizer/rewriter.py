"""Writes numbers, dates and amounts in digits."""

from conch.recognition.hooks import TextRewriter
from conch.wire.options import RecognitionOptions
from conch.wire.text_steps import INVERSE_NORMALIZER


class InverseNormalizer(TextRewriter):
    """Asks the inverse normaliser for every text."""

    component = INVERSE_NORMALIZER
    option = "itn"

    def is_asked(self, options: RecognitionOptions, *, is_punctuated: bool) -> bool:
        """See `TextRewriter.is_asked`."""
        return options.itn


NORMALIZER = InverseNormalizer()
