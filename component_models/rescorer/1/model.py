from conch.language.ngram import LanguageModelConfig
from conch.language.rescorer import Rescorer
from conch.triton import read_parameters, respond


class TritonPythonModel:
    """How probable texts are as language."""

    def initialize(self, args):
        self.component = Rescorer(read_parameters(LanguageModelConfig, args))

    def execute(self, requests):
        return respond(requests, self.component)
