from conch.acoustic.ctc_streaming_encoder import CtcStreamingEncoder, CtcStreamingEncoderConfig
from conch.triton import read_parameters, respond


class TritonPythonModel:
    """A stream's samples, piece by piece, to the log probabilities of units."""

    def initialize(self, args):
        self.component = CtcStreamingEncoder(read_parameters(CtcStreamingEncoderConfig, args))

    def execute(self, requests):
        return respond(requests, self.component)

    def finalize(self):
        self.component.close()
