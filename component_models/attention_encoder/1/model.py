from conch.models.whisper.encoder import WhisperEncoder, WhisperEncoderConfig
from conch.triton import read_parameters, respond


class TritonPythonModel:
    """A segment's waveform to hidden states."""

    def initialize(self, args):
        self.component = WhisperEncoder(read_parameters(WhisperEncoderConfig, args))

    def execute(self, requests):
        return respond(requests, self.component)
