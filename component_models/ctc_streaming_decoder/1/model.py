from conch.decoding.ctc_streaming_decoder import CtcStreamingDecoder, CtcStreamingDecoderConfig
from conch.triton import read_parameters, respond


class TritonPythonModel:
    """A stream's log probabilities, chunk by chunk, to the text so far."""

    def initialize(self, args):
        self.component = CtcStreamingDecoder(read_parameters(CtcStreamingDecoderConfig, args))

    def execute(self, requests):
        return respond(requests, self.component)

    def finalize(self):
        self.component.close()
