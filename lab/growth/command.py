"""`python -m lab growth`: how the cost of a second of audio grows with load."""

from conch.cli.bench import LIMIT, settings_of
from lab.command import Command, reporting
from lab.growth.benchmark import GrowthBenchmark, run
from lab.growth.report import markdown, plot

COMMAND = Command(
    run=reporting(
        lambda args: run(settings_of(GrowthBenchmark, args)),
        markdown,
        has_failed=lambda report: bool(report.errors),
        plot=plot,
    ),
    description="Let the length of recordings, the number of clients and the number of live "
    "streams grow, one at a time, and see the cost of a second of audio: CPU by process, and "
    "memory. The command starts its servers.",
    epilog="""
examples:
  python -m lab growth --manifest speech/manifest.tsv --split dev --plot benchmark.png
  python -m lab growth --manifest calls.tsv --lengths 5,60 --concurrency 1,8 --streams 1,8
""",
    flags=LIMIT
    + """
--lengths N[,N…]=1,5,30,300,3600  seconds of a recording, sent by one client
--concurrency N[,N…]=1,4,16,64,256  clients that send recordings of 5 s
--streams N[,N…]=1,8,24  live streams at once
--seconds N=20   of a stream
--plot FILE.png  the cost against each of what grows
""",
    takes_manifest=True,
)
