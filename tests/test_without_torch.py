"""Who needs no torch does not import it: it takes seconds and 200 MB of each process."""

from without_torch import run

MODULES = [
    "conch.cli.__main__",
    "conch.client",
    "conch.recognition.offline.recording",
    "conch.families.ctc.encoder",
    "conch.families.silero.vad",
    "conch.families.whisper.encoder",
    "conch.families.whisper.decoder",
    "conch.decoding.utterance_search",
    "conch.decoding.graph.search",
    "conch.graphs.build",
    "conch.decoding.streaming_decoder",
    "conch.families.ngram.rescorer",
    "conch.families.smollm2.model",
    "conch.families.punctuation.punctuator",
]


def test_modules_are_imported_without_torch():
    named = ", ".join(MODULES)
    assert (
        run(f"import {named}\nfor module in [{named}]:\n    print(module.__name__)").split()
        == MODULES
    )
