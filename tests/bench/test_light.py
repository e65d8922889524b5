"""The benchmarks of a running server need no more than a client does."""

import subprocess
import sys

WITHOUT = """
import sys
for name in ("av", "ctranslate2", "faster_whisper", "jiwer", "kaldi_decoder", "kaldifst",
             "matplotlib", "onnxruntime", "psutil", "pytriton", "scipy", "soxr", "tokenizers",
             "torch", "wetext", "whisper_normalizer"):
    sys.modules[name] = None
import conch.cli
from conch.bench import live, offline
sys.exit(conch.cli.main(sys.argv[1:]))
"""


def test_benchmarks_of_a_running_server_start_with_a_client_alone() -> None:
    for kind in ("offline", "live"):
        command = ["bench", kind, "--manifest", "none.tsv", "--url", "127.0.0.1:9"]
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT, *command], capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (
            1,
            "conch bench: manifest none.tsv cannot be read: "
            "[Errno 2] No such file or directory: 'none.tsv'\n",
        )
