"""`conch bulk`: transcribe very many files, on as many machines as there are, on Ray Data."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from conch.cli.arguments import Subparsers, number, positive
from conch.cli.option_flags import add_option_flags, given_options
from conch.cli.server_flags import add_header_flags, add_whisper_flag, given_headers, given_whisper
from conch.cli.signals import interrupt_on_sigterm
from conch.client.address import Address
from conch.packaged import install
from conch.wire import formats
from conch.wire.errors import BulkError, OptionError, ServerError
from conch.wire.options import RecognitionOptions

if TYPE_CHECKING:
    from conch.bulk.run import Bulk
    from conch.bulk.work import Job, Outcome

FORMATS = ("txt", *(name for name in formats.FORMATS if name != "text"))
SHOWN = 20
"""Errors, and warnings, that are shown; the shards have all of them."""

EXAMPLES = """
examples:
  conch bulk recordings --out texts                    a folder, with a server of its own
  conch bulk 's3://bucket/2024/*.flac' --out s3://bucket/texts --shards parquet
  conch bulk calls.tsv more.jsonl --out texts --format srt --word-timestamps
  conch bulk corpus.parquet --out texts --ray ray-head:6379    each node with a server of its own
  conch bulk recordings --out texts --url grpc://gpu1:8001 --url grpc://gpu2:8001

INPUT is a folder, a glob, a manifest (.tsv with a column path), a table (.parquet or .jsonl with
path, or with bytes), or a file: a local path, or an address that fsspec reads. DIR gets shards with
a row for each recording. The same command again goes on where the last one stopped.

docs/guide/bulk.md has the columns and what to do when something fails.

exit codes: 0 all files done, 1 a file failed (the others are done), or the run cannot go on,
2 wrong usage, 130 Ctrl-C
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to those of `conch`."""
    parser = subparsers.add_parser(
        "bulk",
        help="transcribe very many files, on one machine or many",
        usage="%(prog)s INPUT... --out DIR [--shards KIND] [--ray ADDRESS | --url URL...] ...",
        description="Transcribe very many files on Ray Data, each exactly once.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="see below")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder or address for shards")
    parser.add_argument(
        "--shards",
        choices=("jsonl", "parquet"),
        default="jsonl",
        help="kind of the shards (default: jsonl)",
    )
    parser.add_argument(
        "--format",
        action="append",
        choices=FORMATS,
        default=[],
        help="write a file for each recording too, into DIR/_files; may be given several times; "
        "srt, vtt and ctm turn --word-timestamps on",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="remove what an earlier run has written to DIR"
    )
    servers = parser.add_argument_group("servers")
    servers.add_argument(
        "--url",
        action="append",
        default=[],
        help="a server or gateway that runs; may be given several times; without it each node "
        "starts its own",
    )
    servers.add_argument(
        "--conch",
        metavar="PATH",
        help="the program that starts the server of a node, in the server's environment (default: "
        "beside this Python, else on PATH)",
    )
    add_whisper_flag(servers)
    add_header_flags(servers)
    servers.add_argument(
        "--jobs",
        type=positive,
        default=4,
        metavar="N",
        help="recordings in flight for each server (default: 4)",
    )
    servers.add_argument(
        "--timeout",
        type=number("a number of seconds above 0", lambda value: 0 < value < float("inf")),
        default=3600.0,
        metavar="SECONDS",
        help="time for one recording or piece; one that takes longer is an error (default: 3600)",
    )
    servers.add_argument(
        "--patience",
        type=number("a number of seconds from 0", lambda value: 0 <= value < float("inf")),
        default=300.0,
        metavar="SECONDS",
        help="time to wait for a server that is gone, before the run ends (default: 300)",
    )
    cluster = parser.add_argument_group("cluster")
    cluster.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="a Ray cluster, as host:6379 or auto (default: RAY_ADDRESS, else Ray on this machine)",
    )
    cluster.add_argument(
        "--files-per-shard",
        type=positive,
        metavar="N",
        help="recordings in a shard (default: the square root of their number, at most 500)",
    )
    cluster.add_argument(
        "--piece",
        type=number("0 or seconds from 10", lambda value: value == 0 or 10 <= value <= 7200),
        default=0.0,
        metavar="SECONDS",
        help="cut recordings of twice this length and more, at pauses, so that nodes share them; "
        "0 cuts only those of more than four hours (default: 0)",
    )
    add_option_flags(parser)
    parser.set_defaults(run=run, usage_error=parser.error)


def run(args: argparse.Namespace) -> int:
    """Transcribe and return the exit code.

    Raises:
        ConchError: the run cannot begin, or cannot go on.
    """
    interrupt_on_sigterm()
    _check_installed()
    from conch.bulk.run import run as run_bulk

    bulk = _bulk(args)
    shown = _Shown(bulk.job)
    try:
        outcomes = run_bulk(replace(bulk, events=shown))
    except KeyboardInterrupt:
        shown.close()
        print("conch: stopped; the same command goes on from here", file=sys.stderr)
        raise
    finally:
        shown.close()
    shown.summary(outcomes)
    return 1 if any(outcome.errors for outcome in outcomes) else 0


def _check_installed() -> None:
    """Tell who lacks Ray Data, or what it needs, before anything is read.

    Raises:
        BulkError: a package of the extra `bulk` is missing or broken.
    """
    try:
        import av  # noqa: F401
        import fsspec  # noqa: F401
        import ray.data  # noqa: F401
        import soxr  # noqa: F401
    # What was built for another numpy raises ValueError and AttributeError, too.
    except Exception as error:
        reason = " ".join(str(error).split())
        raise BulkError(f"needs Ray Data: {reason}; {install('bulk')}") from None


def _bulk(args: argparse.Namespace) -> "Bulk":
    """Return the checked task; a mistake ends the program with a message and exit code 2."""
    from conch.bulk.node_server import serve_command
    from conch.bulk.places import address_of
    from conch.bulk.run import Bulk
    from conch.bulk.work import Job

    usage_error: Callable[[str], None] = args.usage_error
    options = given_options(args)
    if formats.TIMED_FORMATS & set(args.format):
        options.setdefault("word_timestamps", True)
    try:
        RecognitionOptions.parse(options)
        for url in args.url:
            Address.parse(url)
    except (OptionError, ServerError) as error:
        usage_error(str(error))
    if args.url and args.conch:
        usage_error("--conch starts a server, and --url names some that run; give one of them")
    job = Job(
        out=address_of(args.out),
        run="",
        kind=args.shards,
        formats=tuple(dict.fromkeys(args.format)),
        options=options,
        urls=tuple(args.url),
        command=() if args.url else serve_command(args.conch),
        whisper=_whisper(args),
        headers=given_headers(args),
        jobs=args.jobs,
        timeout_s=args.timeout,
        patience_s=args.patience,
        piece_s=args.piece,
    )
    return Bulk(
        inputs=tuple(args.inputs),
        job=job,
        overwrite=args.overwrite,
        ray_address=args.ray,
        files_per_shard=args.files_per_shard,
    )


def _whisper(args: argparse.Namespace) -> str:
    """Return the choice for `conch serve`, whose working folder may be another."""
    whisper = given_whisper(args)
    is_path = os.sep in whisper or whisper.startswith(".")
    return os.path.abspath(os.path.expanduser(whisper)) if is_path else whisper


class _Shown:
    """The progress bar, and what fails, on stderr."""

    def __init__(self, job: "Job") -> None:
        self._job = job
        self._bar: Any = None
        self._audio_s = 0.0
        self._errors = 0
        self._warnings = 0
        self._started = time.monotonic()
        self._elapsed_s = 0.0

    def begun(self, files: int, before: Sequence["Outcome"]) -> None:
        from tqdm import tqdm

        there = sum(outcome.files for outcome in before)
        if there:
            print(f"conch: {there} of {files} files were done before", file=sys.stderr)
        self._started = time.monotonic()
        self._bar = tqdm(
            desc="bulk", total=files, initial=there, unit="file", file=sys.stderr, disable=None
        )

    def done(self, outcome: "Outcome") -> None:
        self._audio_s += outcome.audio_s
        for name, reason in outcome.errors:
            self._errors += 1
            self._tell(self._errors, f"{name}: {reason}", "errors")
        for name, warning in outcome.warnings:
            self._warnings += 1
            self._tell(self._warnings, f"{name}: warning: {warning}", "warnings")
        self._bar.update(outcome.files)
        self._bar.set_postfix_str(self._figures(time.monotonic() - self._started))

    def server_lost(self, url: str, reason: str) -> None:
        others = "go to another --url, or " if len(self._job.urls) > 1 else ""
        self._write(
            f"conch: {reason}; its recordings {others}wait, at most {self._job.patience_s:g} s"
        )

    def server_back(self, url: str) -> None:
        self._write(f"conch: {url} answers again")

    def _figures(self, elapsed_s: float) -> str:
        speed = self._audio_s / elapsed_s if elapsed_s else 0.0
        return f"{self._audio_s / 3600:.2f} h, {speed:.1f}x real time, {self._errors} failed"

    def _tell(self, count: int, text: str, what: str) -> None:
        if count <= SHOWN:
            self._write(f"conch: {text}")
        elif count == SHOWN + 1:
            self._write(f"conch: further {what} are in the shards alone")

    def _write(self, text: str) -> None:
        from tqdm import tqdm

        with tqdm.external_write_mode(file=sys.stderr):
            print(text, file=sys.stderr)

    def close(self) -> None:
        if self._bar is not None:
            self._elapsed_s = time.monotonic() - self._started
            self._bar.close()

    def summary(self, outcomes: Sequence["Outcome"]) -> None:
        files = sum(outcome.files for outcome in outcomes)
        failed = sum(len(outcome.errors) for outcome in outcomes)
        text = (
            f"conch: {files} files in {len(outcomes)} shards, {failed} failed, in {self._job.out}"
        )
        if self._audio_s:
            text += f"; this run: {self._figures(self._elapsed_s)}"
        print(text, file=sys.stderr)
