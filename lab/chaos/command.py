"""`python -m lab chaos`: what brings a server down, and what does not."""

import argparse
import sys

from conch.cli.arguments import UsageError, number
from conch.cli.bench import settings_of, write_report
from lab.chaos import soak
from lab.chaos.campaign import PHASES, ChaosCampaign, run
from lab.chaos.doors import DOORS
from lab.chaos.report import markdown, write_into
from lab.command import Command


def run_command(args: argparse.Namespace) -> int:
    if args.soak_s:
        soaked = soak.run(soak.Soak(seconds=args.soak_s, seed=args.seed))
        write_report(args, soaked, soak.markdown(soaked))
        return 1 if soaked.lost or soaked.restarts else 0
    phases = tuple(args.phases.split(",")) if args.phases else PHASES
    if unknown := [name for name in phases if name not in PHASES]:
        raise UsageError(f"--phases takes some of {', '.join(PHASES)}; got {unknown[0]!r}")
    door, _, index = (args.only or "").partition(":")
    if args.only and (door not in DOORS or not (index or "0").isdecimal()):
        raise UsageError(f"--only takes one of {'; '.join(DOORS)}, and a number; got {args.only!r}")
    print(f"chaos: seed {args.seed}", file=sys.stderr)
    report = run(settings_of(ChaosCampaign, args, phases=phases))
    write_report(args, report, markdown(report))
    if args.notes:
        write_into(args.notes, report)
    return 1 if report.failures else 0


COMMAND = Command(
    run=run_command,
    description="Start a server, attack it, and report what did not hold.",
    epilog="""
phases:
  fuzz       requests, chunks, files, forms and events drawn with hypothesis, through every door
  strangers  odd and hostile clients of every door that the gateway declares
  clients    clients that go away in the middle, and half-sent bodies
  overload   300 clients at once
  deadlines  from 1 ms to a day
  poison     a file with which `speech` is killed, again and again
  flood      64 files of 199 MB at once, and 16 live streams as fast as they can
  faults     SIGKILL, SIGSTOP and hangs of each model, and of tritonserver, and no memory
  memory     a server with a small /dev/shm

Honest requests run next to them, and their texts are compared word for word. At the end streams,
processes, descriptors, threads and shared memory of the server are counted.

examples:
  python -m lab chaos --notes docs/notes/reliability.md --json chaos.json
  python -m lab chaos --seed 7 --phases fuzz --requests 10000
  python -m lab chaos --seed 7 --requests 10000 --only "gRPC:412"
  python -m lab chaos --soak-s 3600
""",
    flags="""
--seed COUNT=1          of all that is drawn
--requests N=3000       hostile requests of the fuzz, over all doors
--minutes M=15          after which nothing more begins
--phases NAME[,NAME…]   out of those below (default: all)
--only DOOR[:NUMBER]    fuzz one door, or send one of the requests that are drawn for it
--soak-s N              in place of the phases: honest clients for N seconds, while every two
                        minutes a process is killed
--notes FILE            write the table between the markers of this document
""",
    types={
        "minutes": number("a number of minutes above 0", lambda value: 0 < value < float("inf")),
        "phases": "",
    },
    codes="0 everything held, 1 something did not, 2 wrong usage",
)
