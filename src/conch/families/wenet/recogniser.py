"""A model of WeNet as a recogniser."""

from conch.bls.call import Parameter
from conch.families.search.first_pass import SearchFirstPass
from conch.families.search.recogniser import SearchRecogniser, search_parameters
from conch.families.wenet import FRAMES, LIVE, OFFLINE, RESCORE
from conch.wire.options import RecognitionOptions


class _WenetRecogniser(SearchRecogniser):
    def parameters(self, options: RecognitionOptions) -> dict[str, Parameter]:
        return {**search_parameters(options), RESCORE: options.own_rescore}


class WenetFirstPass(SearchFirstPass):
    encoder, decoder = LIVE
    frames = FRAMES

    def parameters(self, options: RecognitionOptions) -> dict[str, Parameter]:
        """Return the search's parameters; a second pass takes the place of its rescoring."""
        asks = options.own_rescore and options.mode == "streaming"
        return {**search_parameters(options), RESCORE: asks}


WENET = _WenetRecogniser(*OFFLINE, frames=FRAMES)
