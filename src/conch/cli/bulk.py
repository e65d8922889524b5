"""`conch bulk`: transcribe very many files with Ray Data, on one machine or many."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from conch.cli.arguments import Subparsers, UsageError, add_command, add_flags, number, positive
from conch.cli.option_flags import add_option_flags, given_options
from conch.cli.progress import FileBar
from conch.cli.server import (
    HEADERS,
    NO_WEIGHTS,
    WEIGHTS,
    checked_options,
    given_server,
    with_options_of_formats,
)
from conch.packaged import install
from conch.wire import formats
from conch.wire.errors import BulkError

if TYPE_CHECKING:
    from conch.bulk.work import Job, ShardOutcome

FORMATS = ("txt", *(name for name in formats.FORMATS if name != "text"))

EXAMPLES = """
examples:
  conch bulk recordings --out texts                    a folder, with a server of its own
  conch bulk 's3://bucket/2024/*.flac' --out s3://bucket/texts --shards parquet
  conch bulk calls.tsv more.jsonl --out texts --format srt --word-timestamps
  conch bulk corpus.parquet --out texts --ray ray-head:6379    each node with a server of its own
  conch bulk recordings --out texts --url grpc://gpu1:8001 --url grpc://gpu2:8001

INPUT is a folder, a glob, a manifest (.tsv with a column path), a table (.parquet or .jsonl with
path, or with bytes), or a file: a local path, or an address that fsspec reads. DIR gets shards with
a row for each recording. Run the same command again to continue a stopped run.

docs/guide/bulk.md has the columns and what to do when something fails.

exit codes: 0 all files done, 1 a file failed (the others are done), or the run cannot go on,
2 wrong usage, 130 Ctrl-C
"""


FLAGS = f"""
--out DIR!                      folder or address for shards
--format {{{",".join(FORMATS)}}}...  write a file for each recording too, into DIR/_files; srt, vtt
                                and ctm turn --word-timestamps on
--shards {{jsonl,parquet}}=jsonl  kind of the shards
--overwrite                     remove what an earlier run has written to DIR
"""
SERVERS = """
--url URL...             a running server or gateway; without it each node starts its own server
--conch PATH             the program that starts a node's server, in that server's Python
                         environment (default: next to this Python, else on PATH)
--jobs N=4               recordings in flight for each server
--timeout SECONDS=3600   time for one recording or piece; one that takes longer is an error
--patience SECONDS=300   time to wait for a server that is gone, before the run ends
"""
CLUSTER = """
--ray ADDRESS        a Ray cluster, as host:6379 or auto (default: RAY_ADDRESS, else Ray on this
                     machine)
--files-per-shard N  recordings in a shard (default: the square root of their number, at most 500)
--piece SECONDS=0    cut recordings of twice this length and more, at pauses, so that nodes share
                     them; 0 cuts only those of more than four hours
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "bulk",
        run,
        help="transcribe very many files, on one machine or many",
        usage="%(prog)s INPUT... --out DIR [--shards KIND] [--ray ADDRESS | --url URL...] ...",
        description="Transcribe very many files on Ray Data, each exactly once.",
        epilog=EXAMPLES,
    )
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="see below")
    add_flags(parser, FLAGS)
    timeout = number("a number of seconds above 0", lambda value: 0 < value < float("inf"))
    patience = number("a number of seconds from 0", lambda value: 0 <= value < float("inf"))
    types = {"jobs": positive, "timeout": timeout, "patience": patience}
    servers = parser.add_argument_group("servers")
    add_flags(servers, SERVERS + WEIGHTS + HEADERS, **NO_WEIGHTS, **types)
    piece = number("0 or seconds from 10", lambda value: value == 0 or 10 <= value <= 7200)
    cluster = parser.add_argument_group("cluster")
    add_flags(cluster, CLUSTER, files_per_shard=positive, piece=piece)
    add_option_flags(parser, choices={"mode": ("auto", "offline")})


def run(args: argparse.Namespace) -> int:
    _check_installed()
    from conch.bulk.run import run as run_bulk
    from conch.bulk.storage import without_secrets

    job = _job(args)
    bar = _ShardBar(job)
    with bar:
        try:
            outcomes = run_bulk(
                args.inputs,
                job,
                bar,
                overwrite=args.overwrite,
                ray_address=args.ray,
                files_per_shard=args.files_per_shard,
            )
        except BulkError as error:
            raise BulkError(without_secrets(str(error))) from None
        this_run = f"; this run: {bar.figures()}" if bar.audio_s else ""
    files = sum(outcome.files for outcome in outcomes)
    failed = sum(len(outcome.errors) for outcome in outcomes)
    text = f"conch: {files} files in {len(outcomes)} shards, {failed} failed, in {job.out}"
    print(f"{text}{this_run}", file=sys.stderr)
    return 1 if failed else 0


def _check_installed() -> None:
    try:
        import fsspec  # noqa: F401
        import ray.data  # noqa: F401
        import soxr  # noqa: F401
    # A package built for another numpy raises ValueError or AttributeError.
    except Exception as error:
        reason = " ".join(str(error).split())
        raise BulkError(f"needs Ray Data: {reason}; {install('bulk')}") from None


def _job(args: argparse.Namespace) -> "Job":
    from conch.bulk.sending import Sending
    from conch.bulk.storage import address_of
    from conch.bulk.work import Job
    from conch.bulk.worker import serve_command
    from conch.catalogue.models import components_chosen
    from conch.wire.needs import options_to_serve

    options = with_options_of_formats(args.format, given_options(args))
    checked_options(options, args.url)
    if args.url and args.conch:
        raise UsageError("--conch starts a server, and --url names running ones; give one of them")
    if options.get("model") and not args.url:
        raise UsageError(
            "--model names a model of a running server: start one with conch serve --model "
            "NAME=FOLDER, and give its --url"
        )
    headers, weights = given_server(args)
    for name, model in weights.items():
        if os.sep in model or model.startswith("."):
            # The working folder of `conch serve` may be another.
            weights[name] = os.path.abspath(os.path.expanduser(model))
    if weights:
        chosen = components_chosen(weights)
        options.setdefault("decoder", options_to_serve(options, chosen=chosen).decoder)
    return Job(
        out=address_of(args.out),
        run="",
        shard_format=args.shards,
        formats=tuple(dict.fromkeys(args.format)),
        options=options,
        urls=tuple(args.url),
        command=() if args.url else serve_command(args.conch),
        weights=NO_WEIGHTS | weights,
        sending=Sending(headers, args.jobs, args.timeout, args.patience),
        piece_s=args.piece,
    )


class _ShardBar(FileBar):
    def __init__(self, job: "Job") -> None:
        from conch.bulk.inputs import left_out_text

        super().__init__("bulk", "the shards", left_out_text)
        self._job = job

    def begun(self, files: int, before: Sequence["ShardOutcome"]) -> None:
        self.begin(files, sum(outcome.files for outcome in before))

    def done(self, outcome: "ShardOutcome") -> None:
        self.problems("errors", (f"{name}: {reason}" for name, reason in outcome.errors))
        self.problems("warnings", (f"{name}: warning: {text}" for name, text in outcome.warnings))
        self.update(outcome.files, outcome.audio_s)

    def server_lost(self, url: str, reason: str) -> None:
        others = "go to another --url, or " if len(self._job.urls) > 1 else ""
        patience_s = self._job.sending.patience_s
        self.line(f"{reason}; its recordings {others}wait, at most {patience_s:g} s")

    def server_back(self, url: str) -> None:
        self.line(f"{url} answers again")
