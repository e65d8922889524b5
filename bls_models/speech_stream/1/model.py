from conch.orchestrator import OrchestratorConfig
from conch.triton import EntryPoint, read_parameters


class TritonPythonModel:
    """The speech model under the decoupled policy: one response per segment, as it is known."""

    def initialize(self, args):
        self.entry_point = EntryPoint(read_parameters(OrchestratorConfig, args), args["model_name"])

    def execute(self, requests):
        for request in requests:
            self.entry_point.start_stream(request)

    def finalize(self):
        self.entry_point.close()
