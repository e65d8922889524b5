"""`python -m lab memory`: memory of a server's processes at its start, used and at rest."""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import soundfile

from conch.bench.memory import Memory, process_tree, tree_memory
from conch.cli.demo import SPEECH
from conch.client import Client
from conch.launcher import ServerConfig, TritonServer
from conch.scoring.error_rates import table
from conch.wire.needs import PATHS, components_of
from conch.wire.options import RecognitionOptions
from lab.command import Command

CHUNK = 10240
"""Samples of a live chunk: 640 ms."""
SENT: tuple[Mapping[str, Any], ...] = (
    *PATHS.values(),
    {"decoder": "ctc", "lm_fusion": True},
    {"decoder": "wfst", "nbest": 5},
    {"rescore": True, "rescorer": "ngram"},
    {"rescore": True, "rescorer": "neural"},
    {"accuracy": "best"},
    {"mode": "streaming", "decoder": "ctc"},
    {"mode": "streaming", "decoder": "ctc", "lm_fusion": True},
    {"mode": "streaming", "decoder": "transducer"},
)
"""Options of the requests, of which those without their models are left out."""


def sendable(models: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the options of `SENT` for which a server has all components."""
    for options in SENT:
        parsed = RecognitionOptions.parse(options, live="mode" in options)
        if set(components_of(parsed)) <= set(models):
            yield options


def measured(models: Sequence[str], idle_s: float, transducer: str = "") -> dict[str, Memory]:
    """Return the memory of a new server's processes, by what came before."""
    waveform, rate = soundfile.read(SPEECH, dtype="float32")
    config = ServerConfig(
        models=() if "all" in models else models,
        on_demand=not models,
        weights={"transducer": transducer} if transducer else {},
    )
    started = time.monotonic()
    with TritonServer(config) as server:
        print(f"ready after {time.monotonic() - started:.1f} s", file=sys.stderr)
        memory = {"started": tree_memory(process_tree(server.pid))}
        with Client(f"grpc://{server.grpc_url}") as client:
            for options in sendable(server.models()):
                print(f"sending {dict(options)}", file=sys.stderr)
                if "mode" not in options:
                    client.transcribe(SPEECH, **options)
                    continue
                with client.live(sample_rate=rate, **options) as stream:
                    for start in range(0, len(waveform), CHUNK):
                        stream.send(waveform[start : start + CHUNK])
                    stream.finish()
        memory["used"] = tree_memory(process_tree(server.pid))
        time.sleep(idle_s)
        memory["at rest"] = tree_memory(process_tree(server.pid))
    return memory


def markdown(memory: Mapping[str, Memory]) -> str:
    """Return a table: a row for each process, the largest first, and their sum."""
    first, *_, last = memory.values()
    names = sorted(first.by_process_mb, key=lambda name: -last.by_process_mb.get(name, 0.0))
    rows = [[n, *(f"{m.by_process_mb.get(n, 0):.0f}" for m in memory.values())] for n in names]
    return table(["", *memory], [*rows, ["all", *(f"{m.total_mb:.0f}" for m in memory.values())]])


def run_command(args: argparse.Namespace) -> int:
    models = [*filter(None, args.models.split(","))]
    print(markdown(measured(models, args.idle_s, args.transducer)))
    return 0


COMMAND = Command(
    run=run_command,
    description="Start a server, send a recording down every path whose models are loaded, and "
    "print each process's PSS in MB of 10⁶ bytes. The instances of a model are added up.",
    epilog="""
Libraries are shared with all processes of the machine, so run it while no other server runs.

examples:
  python -m lab memory
  python -m lab memory --models all
  python -m lab memory --models speech,vad,attention_encoder,attention_decoder,rescorer
  python -m lab memory --transducer FOLDER
""",
    flags="""
--models NAME[,NAME…]  or all (default: as conch serve)
--transducer FOLDER    one of your own
--idle-s S=25          of rest
""",
    types={"models": "", "transducer": ""},
    has_report=False,
)
