"""Who needs no torch does not import it: it takes seconds and 200 MB of each process."""

import pytest
from without_torch import run


@pytest.mark.parametrize(
    "module",
    [
        "conch.cli.__main__",
        "conch.client",
        "conch.orchestrator.offline",
        "conch.acoustic.ctc_encoder",
        "conch.acoustic.ctc_streaming_encoder",
        "conch.acoustic.silero",
        "conch.acoustic.whisper_encoder",
        "conch.acoustic.whisper_decoder",
        "conch.decoding.ctc_greedy",
        "conch.decoding.wfst_search",
        "conch.decoding.wfst_graph",
        "conch.decoding.ctc_streaming_decoder",
        "conch.language.rescorer",
    ],
)
def test_a_module_is_imported_without_torch(module):
    assert run(f"import {module}; print({module}.__name__)") == module
