"""Score texts by SmolLM2, with the component `neural_rescorer`."""

from conch.bls.calls import Calls
from conch.component import bytes_array
from conch.recognition.hooks import Heard
from conch.wire.options import RecognitionOptions

CONTEXT_WORDS = 40
"""Words of the text before that the language model reads. They leave room for a prompt."""


async def scores(
    calls: Calls, texts: list[str], segment: Heard, options: RecognitionOptions
) -> list[float]:
    """Return the log probability of each text; with `lm_context`, wait for the text before."""
    before = await segment.speech.said_before() if options.lm_context else ""
    context = " ".join(before.split()[-CONTEXT_WORDS:])
    if options.prompt:
        # A paragraph of its own: as part of the speech, an unrelated prompt does more harm.
        context = f"{' '.join(options.prompt.split())}\n\n{context}"
    inputs = {"hypotheses": bytes_array(texts)}
    if context:
        inputs["context"] = bytes_array([context])
    outputs = await calls("neural_rescorer", inputs, ("lm_scores",))
    return [float(score) for score in outputs["lm_scores"].numpy()]
