"""`python -m lab`: the project's measurements, run from the root of a checkout."""

import argparse
import sys
from collections.abc import Sequence

from conch.wire.errors import ConchError
from lab.bulk import command as bulk
from lab.chaos import command as chaos
from lab.endpoints import command as endpoints
from lab.fairness import command as fairness
from lab.first import command as first
from lab.gateway import command as gateway
from lab.growth import command as growth
from lab.header import PROGRAM
from lab.live import command as live
from lab.names import command as names
from lab.offline import command as offline
from lab.orchestration import command as orchestration
from lab.paths import command as paths
from lab.perf_analyzer import command as perf_analyzer
from lab.speakers import command as speakers
from lab.synthesis import command as synthesis

NAME = " ".join(PROGRAM)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=NAME,
        description="Measure Conch next to other ways to do the same, and part by part.",
        epilog=f"`{NAME} COMMAND --help` explains a command and shows examples. On a GPU machine "
        "`python -m lab.gpu_check --help`, for training `lab/training/README.md`.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    offline.add_offline(commands)
    live.add_live(commands)
    paths.add_paths(commands)
    names.add_names(commands)
    speakers.add_speakers(commands)
    synthesis.add_synthesis(commands)
    endpoints.add_endpoints(commands)
    orchestration.add_orchestration(commands)
    growth.add_growth(commands)
    gateway.add_gateway(commands)
    fairness.add_fairness(commands)
    first.add_first(commands)
    chaos.add_chaos(commands)
    bulk.add_bulk(commands)
    perf_analyzer.add_perf_analyzer_input(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 for success, 1 for failure, 2 for wrong usage."""
    args = build_parser().parse_args(argv)
    try:
        return int(args.run(args))
    except ConchError as error:
        print(f"lab {args.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
