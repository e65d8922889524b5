"""`python -m lab`: the project's measurements, run from the root of a checkout."""

import argparse
import sys
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module

from conch.wire.errors import ConchError
from lab.command import PROGRAM, Command

NAME = " ".join(PROGRAM)
COMMANDS: Mapping[str, tuple[str, str]] = {
    "offline": ("lab.offline.report", "whole recordings, joined or not, next to a baseline"),
    "live": ("lab.live.report", "live streams, and what a viewer of them sees"),
    "paths": ("lab.paths", "accuracy against speed of several paths"),
    "names": ("lab.names.benchmark", "hotwords: names found, words spoiled, names invented"),
    "speakers": ("lab.speakers.command", "speaker labels: errors, number of speakers, cost"),
    "synthesis": ("lab.synthesis", "hibari by the bare package and by Conch's components"),
    "endpoints": ("lab.endpoints.benchmark", "ends of turns: delay, and cuts in mid-sentence"),
    "orchestration": ("lab.orchestration.report", "the offline path, and by its alternatives"),
    "growth": ("lab.growth.report", "the cost of a second of audio as the load grows"),
    "gateway": ("lab.gateway", "latency and CPU of the gateway next to Triton's"),
    "fairness": ("lab.fairness", "waits of a crowd, and of a short recording during a long one"),
    "first": ("lab.first", "the first segment of a long recording, and that segment alone"),
    "chaos": ("lab.chaos.command", "hostile requests, overload and faults against a server"),
    "bulk": ("lab.bulk", "the cost of conch bulk next to conch transcribe"),
    "perf-analyzer-input": (
        "lab.perf_analyzer.files",
        "input files and commands for NVIDIA's perf_analyzer",
    ),
    "cost": ("lab.cost", "CPU time of a second of audio, by path and process"),
    "memory": ("lab.server_memory", "memory of a server's processes"),
    "in-flight": ("lab.in_flight", "what segments that are decoded together cost Moonshine"),
    "same-text": ("lab.baselines.same_text", "a folder in Conch and in its authors' runtime"),
    "sherpa-onnx-live": ("lab.baselines.sherpa_onnx_live", "live streams to sherpa-onnx's server"),
    "zipformer": ("lab.zipformer", "write a transducer of full size, with random weights"),
}
"""The module of each command, whose `COMMAND` it is, and what the list of commands says of it."""


def build_parser(whole: Collection[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """Return the parser; commands that are not `whole` are known by their names alone."""
    parser = argparse.ArgumentParser(
        prog=NAME,
        description="Measure Conch next to other ways to do the same, and part by part.",
        epilog=f"`{NAME} COMMAND --help` explains a command and shows examples; for training, "
        "`lab/training/README.md`.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, help) in COMMANDS.items():
        if name in whole:
            command: Command = import_module(module).COMMAND
            command.add_to(commands, name, help)
        else:
            commands.add_parser(name, help=help)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    # Each command imports what it measures by.
    args = build_parser(argv[:1]).parse_args(argv)
    try:
        return int(args.run(args))
    except ConchError as error:
        print(f"lab {args.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
