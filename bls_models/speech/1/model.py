from conch.orchestrator import OrchestratorConfig
from conch.triton import EntryPoint, read_parameters


class TritonPythonModel:
    """The public entry point: speech in, transcript out; each request picks its own road."""

    def initialize(self, args):
        self.entry_point = EntryPoint(read_parameters(OrchestratorConfig, args), args["model_name"])

    def execute(self, requests):
        for request in requests:
            self.entry_point.start(request)

    def finalize(self):
        self.entry_point.close()
