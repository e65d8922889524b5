from conch.models.ctc.streaming_encoder import CtcStreamingEncoder, CtcStreamingEncoderConfig
from conch.triton import publish_streams, read_parameters, respond


class TritonPythonModel:
    """A stream's samples, piece by piece, to the log probabilities of units."""

    def initialize(self, args):
        self.component = CtcStreamingEncoder(read_parameters(CtcStreamingEncoderConfig, args))
        self.publisher = publish_streams(args, self.component)

    def execute(self, requests):
        return respond(requests, self.component)

    def finalize(self):
        self.publisher.close()
        self.component.close()
