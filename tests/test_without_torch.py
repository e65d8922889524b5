"""Who needs no torch does not import it: it takes seconds and 200 MB of each process."""

import pytest
from without_torch import run


@pytest.mark.parametrize(
    "module",
    [
        "conch.cli.__main__",
        "conch.client",
        "conch.recognition.offline.recording",
        "conch.families.ctc.encoder",
        "conch.families.ctc.streaming_encoder",
        "conch.families.silero.vad",
        "conch.families.whisper.encoder",
        "conch.families.whisper.decoder",
        "conch.decoding.greedy",
        "conch.decoding.graph.search",
        "conch.graphs.build",
        "conch.decoding.streaming_decoder",
        "conch.families.ngram.rescorer",
        "conch.families.smollm2.rescorer",
        "conch.families.punctuation.punctuator",
    ],
)
def test_a_module_is_imported_without_torch(module):
    assert run(f"import {module}; print({module}.__name__)") == module
