"""Scores texts by SmolLM2, with the component `neural_rescorer`."""

from conch.bls.calls import Calls
from conch.component import bytes_array
from conch.recognition.hooks import TextScorer
from conch.recognition.speech import Heard
from conch.wire.options import RecognitionOptions

CONTEXT_WORDS = 40
"""Words of the text before that the language model reads. They leave room for a prompt."""


class NeuralScorer(TextScorer):
    """The opinion of the neural language model on which text was said."""

    score = "lm_score"

    def is_asked(self, options: RecognitionOptions) -> bool:
        """See `TextScorer.is_asked`."""
        return options.rescore and options.rescorer == "neural"

    async def scores(
        self, calls: Calls, texts: list[str], heard: Heard, options: RecognitionOptions
    ) -> list[float]:
        """See `TextScorer.scores`. With `lm_context`, it waits for the text before."""
        inputs = {"hypotheses": bytes_array(texts)}
        if context := await self._context(heard, options):
            inputs["context"] = bytes_array([context])
        outputs = await calls("neural_rescorer", inputs, ("lm_scores",))
        return [float(score) for score in outputs["lm_scores"].numpy()]

    async def _context(self, heard: Heard, options: RecognitionOptions) -> str:
        before = await heard.speech.said_before() if options.lm_context else ""
        context = " ".join(before.split()[-CONTEXT_WORDS:])
        if options.prompt:
            # A paragraph of its own: as part of the speech, an unrelated prompt does more harm.
            context = f"{' '.join(options.prompt.split())}\n\n{context}"
        return context


SMOLLM2 = NeuralScorer()
