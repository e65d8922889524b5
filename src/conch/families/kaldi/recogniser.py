"""A model of Kaldi as a recogniser: its searches take the waveform itself."""

from conch.families.kaldi import DECODER, STREAMING_DECODER
from conch.families.search.first_pass import SearchFirstPass
from conch.families.search.recogniser import SearchRecogniser

KALDI = SearchRecogniser(DECODER, DECODER, frames="waveform")


class KaldiFirstPass(SearchFirstPass):
    encoder = decoder = STREAMING_DECODER
    frames = "waveform"
