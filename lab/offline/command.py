"""`python -m lab offline`: whole recordings, joined or not, next to a baseline."""

import argparse

from conch.cli.bench import (
    LIMIT,
    METRIC,
    OPTION,
    SEND,
    add_offered,
    add_server,
    loads_of,
    served_by,
    settings_of,
)
from lab.arguments import JOINING, joining
from lab.baselines.faster_whisper import BATCHES
from lab.baselines.sherpa_onnx_moonshine import FORMATS
from lab.command import Command, reporting
from lab.offline.benchmark import ComparisonBenchmark, OfflineComparison, run
from lab.offline.report import markdown

NAMES = ",".join([*BATCHES, *FORMATS])
BASELINE = f"""
--baseline {{{NAMES}}}  measure this too, on the same recordings, in one process: with the weights
                        of the server's Whisper (batched decodes 8 segments of a recording at once),
                        or of its Moonshine, from the files of its packages or from ONNX made of
                        them
"""


def _measured(args: argparse.Namespace) -> OfflineComparison:
    return run(
        settings_of(
            ComparisonBenchmark,
            args,
            **served_by(args),
            **loads_of(args, 1),
            joining=joining(args),
        )
    )


def _has_failed(report: OfflineComparison) -> bool:
    figures = [item.judged.run.figures for item in report.runs]
    return any(item.errors == item.utterances for item in figures)


def _add(parser: argparse.ArgumentParser) -> None:
    how = parser.add_argument_group("how")
    add_offered(how)
    add_server(how)


COMMAND = Command(
    run=reporting(_measured, markdown, has_failed=_has_failed),
    description="Do what `conch bench offline` does, of long recordings too that are joined of "
    "utterances, and next to a baseline.",
    epilog="""
examples:
  python -m lab offline --manifest speech/manifest.tsv --split dev --concurrency 1,8 \\
      --baseline faster-whisper --json offline.json --markdown offline.md
  python -m lab offline --manifest speech/manifest.tsv --split dev --join 600 --pause 1,3 \\
      --between music --baseline faster-whisper
""",
    flags=LIMIT + SEND + OPTION + METRIC + JOINING + BASELINE,
    add=_add,
    takes_manifest=True,
)
