"""The CTC model as a recogniser, and as an opinion on other texts.

The option `decoder` names the search. component_models/README.md has the tensors of the components.
"""

from conch.bls.calls import Calls
from conch.component import bytes_array
from conch.families.ctc import LIVE, OFFLINE
from conch.families.search.first_pass import SearchFirstPass
from conch.families.search.recogniser import SearchRecogniser
from conch.recognition.hooks import Encodings
from conch.wire.options import RecognitionOptions

IMPOSSIBLE = -1e4
"""Log probability of an impossible text: finite, so that sums and differences of scores are."""

CTC = SearchRecogniser(*OFFLINE, frames="log_probs")


class CtcFirstPass(SearchFirstPass):
    encoder, decoder = LIVE
    frames = "log_probs"
    keeps_for = CTC.encoder


async def scores(
    calls: Calls, texts: list[str], encodings: Encodings, options: RecognitionOptions
) -> list[float]:
    """Return the log probability of each text over all alignments; `IMPOSSIBLE` if too long."""
    encoded = await encodings.by(CTC)
    inputs = {**encoded.inputs, "texts": bytes_array(texts)}
    outputs = await calls(CTC.decoder, inputs, ("text_scores",), {"language": options.language})
    return [max(float(score), IMPOSSIBLE) for score in outputs["text_scores"].numpy()]
