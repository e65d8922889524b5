"""Who needs no torch does not import it: it takes seconds and 200 MB of each process."""

import pytest
from without_torch import run


@pytest.mark.parametrize(
    "module",
    [
        "conch.cli.__main__",
        "conch.client",
        "conch.recognition.offline.recording",
        "conch.models.ctc.encoder",
        "conch.models.ctc.streaming_encoder",
        "conch.models.silero",
        "conch.models.whisper.encoder",
        "conch.models.whisper.decoder",
        "conch.decoding.greedy",
        "conch.decoding.graph.search",
        "conch.graphs.build",
        "conch.decoding.streaming_decoder",
        "conch.language.rescorer",
        "conch.language.neural.rescorer",
        "conch.language.punctuation.punctuator",
    ],
)
def test_a_module_is_imported_without_torch(module):
    assert run(f"import {module}; print({module}.__name__)") == module
