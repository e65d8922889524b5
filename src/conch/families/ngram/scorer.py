"""Scores texts by n-grams, with the component `rescorer`."""

from conch.bls.calls import Calls
from conch.component import bytes_array
from conch.recognition.hooks import TextScorer
from conch.recognition.speech import Heard
from conch.wire.options import RecognitionOptions


class NgramScorer(TextScorer):
    """The opinion of the n-grams on which text was said."""

    score = "lm_score"

    def is_asked(self, options: RecognitionOptions) -> bool:
        """See `TextScorer.is_asked`."""
        return options.rescore and options.rescorer == "ngram"

    async def scores(
        self, calls: Calls, texts: list[str], heard: Heard, options: RecognitionOptions
    ) -> list[float]:
        """See `TextScorer.scores`."""
        outputs = await calls("rescorer", {"hypotheses": bytes_array(texts)}, ("lm_scores",))
        return [float(score) for score in outputs["lm_scores"].numpy()]


NGRAM = NgramScorer()
