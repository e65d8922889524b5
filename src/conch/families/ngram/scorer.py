"""Score texts by n-grams, with the component `rescorer`."""

from conch.bls.calls import Calls
from conch.component import bytes_array
from conch.recognition.hooks import Encodings
from conch.wire.options import RecognitionOptions


async def scores(
    calls: Calls, texts: list[str], encodings: Encodings, options: RecognitionOptions
) -> list[float]:
    outputs = await calls("rescorer", {"hypotheses": bytes_array(texts)}, ("lm_scores",))
    return [float(score) for score in outputs["lm_scores"].numpy()]
