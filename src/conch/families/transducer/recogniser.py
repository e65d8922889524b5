"""A transducer as a recogniser."""

from conch.families.search.first_pass import SearchFirstPass
from conch.families.search.recogniser import SearchRecogniser
from conch.families.transducer import FRAMES, LIVE, OFFLINE

TRANSDUCER = SearchRecogniser(*OFFLINE, frames=FRAMES)


class TransducerFirstPass(SearchFirstPass):
    encoder, decoder = LIVE
    frames = FRAMES
