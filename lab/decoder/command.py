"""`python -m lab decoder`: CTC decoding alone, next to pyctcdecode."""

import argparse
from functools import partial

from conch.cli.arguments import Subparsers, positive
from conch.cli.bench_arguments import add_output, add_what, write_report


def add_decoder(commands: Subparsers) -> None:
    """Add the command to those of the laboratory."""
    parser = commands.add_parser(
        "decoder",
        help="CTC decoding alone, next to pyctcdecode",
        description="Decode the CTC model's log probabilities of real recordings in every way, and "
        "by pyctcdecode, on one thread and without a server. Needs pyctcdecode and kenlm.",
    )
    add_what(parser)
    how = parser.add_argument_group("how")
    add_number = partial(how.add_argument, type=positive, metavar="N")
    add_number("--batch-size", default=32, help="utterances searched together (default: 32)")
    add_number("--beam-size", default=10, help="(default: 10)")
    add_number("--runs", default=5, help="of which the median counts (default: 5)")
    how.add_argument("--device", default="cpu", help="of the beam: cpu or cuda (default: cpu)")
    add_output(parser)
    parser.set_defaults(run=run_decoder)


def run_decoder(args: argparse.Namespace) -> int:
    """Measure, print the table, write the files and return the exit code."""
    from lab.decoder import benchmark

    report = benchmark.run(
        benchmark.DecoderBenchmark(
            manifest=args.manifest,
            split=args.split,
            source=args.source,
            limit=args.limit,
            batch_size=args.batch_size,
            beam_size=args.beam_size,
            runs=args.runs,
            device=args.device,
        )
    )
    write_report(args, report, benchmark.markdown(report))
    return 0
