"""`conch voices fit`, `stop` and `remove`: voices that are fitted to recordings."""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from conch.cli.arguments import Subparsers, UsageError, add_command, add_flags, existing, whole
from conch.cli.server import BEFORE, HEADERS, URL, headers_of, server_that_fits
from conch.fitted_voices import LEAST_MINUTES, MINUTES, MOST_MINUTES, NAME, TAKES_NAME, FittedVoice
from conch.wire.errors import ConchError

if TYPE_CHECKING:
    from conch.client import Client

EPILOG = """
examples:
  conch voices fit Ann ann-*.wav                      ten minutes of work, on a server of its own
  conch voices fit Ann ann-*.wav --minutes 60 --url http://127.0.0.1:9000
  conch say --voice Ann "Hello there."
  conch voices remove Ann

Take 3 to 50 recordings of one person, a minute of speech in all. You need the consent of the
person. The server keeps the voice in $XDG_DATA_HOME/conch/voices (~/.local/share/conch/voices),
which its user alone can read, and no recording. Ctrl-C ends the work; the voice stays as it is.

exit codes: 0 fitted, 1 failed, 2 wrong usage
"""
FLAGS = f"""
--minutes MINUTES={MINUTES}  most minutes of work, {LEAST_MINUTES} to {MOST_MINUTES}
--consent FILE        recording of the sentence that the server may ask for
"""
POLL_S = 1.0


def add_parsers(commands: Subparsers) -> None:
    fit = add_command(
        commands,
        "fit",
        run_fit,
        help="fit a voice to recordings of a person",
        usage="conch voices fit NAME FILE... [--minutes MINUTES] [--url URL] ...",
        description="Fit a voice to recordings of a person, so that texts can be spoken with it.",
        epilog=EPILOG,
    )
    fit.add_argument("name", type=_name, metavar="NAME", help="what the voice is called")
    fit.add_argument(
        "files", nargs="+", metavar="FILE", type=existing, help="recordings of this person alone"
    )
    minutes = whole(LEAST_MINUTES, MOST_MINUTES)
    add_flags(fit, FLAGS, minutes=minutes, consent=(existing, None))
    stop = add_command(commands, "stop", run_stop, help="end the work on a voice, and keep it")
    remove = add_command(commands, "remove", run_remove, help="delete a fitted voice")
    for parser in (stop, remove):
        parser.add_argument("name", type=_name, metavar="NAME", help="a fitted voice")
    for parser in (fit, stop, remove):
        add_flags(parser, URL + HEADERS, **BEFORE)


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{TAKES_NAME}; got {text!r}")
    return text


def run_fit(args: argparse.Namespace) -> int:
    with _client(args) as client:
        print(f"conch: listening to {len(args.files)} recordings", file=sys.stderr)
        minutes = int(args.minutes)
        client.fit_voice(args.name, args.files, minutes=minutes, consent=args.consent)
        try:
            voice = _watched(client, args.name)
        except KeyboardInterrupt:
            print("\nconch: ending the work; the voice stays as it is", file=sys.stderr)
            client.stop_fitting(args.name)
            voice = _watched(client, args.name)
    for warning in voice.warnings:
        print(f"conch: {warning}", file=sys.stderr)
    if voice.error:
        raise ConchError(f"the voice {voice.name} could not be fitted: {voice.error}")
    where = f" --url {args.url}" if args.url else ""
    print(f'{summary(voice)}; conch say{where} --voice "{voice.name}" speaks with it')
    return 0


def _watched(client: "Client", name: str) -> FittedVoice:
    from tqdm import tqdm

    voice = client.fitted_voice(name)
    with tqdm(
        total=round(voice.seconds + voice.seconds_left),
        desc=name,
        unit="s",
        disable=None,
        bar_format="{desc}  {percentage:.0f}%|{bar:20}| {postfix}",
    ) as bar:
        while voice.is_in_work:
            bar.n = min(bar.total, round(voice.seconds))
            bar.set_postfix_str(summary(voice))
            time.sleep(POLL_S)
            voice = client.fitted_voice(name)
    return voice


def summary(voice: FittedVoice) -> str:
    if voice.similarity is None:
        return "waits for its turn" if voice.status == "queued" else "begins"
    wer = "" if voice.wer is None else f", WER {voice.wer:g} %"
    left = f", {voice.seconds_left / 60:.1f} min left" if voice.is_in_work else ""
    return f"similarity {voice.similarity:.2f} (was {voice.start_similarity:.2f}){wer}{left}"


def run_stop(args: argparse.Namespace) -> int:
    if not args.url:
        raise UsageError("stop takes the --url of the server that does the work")
    with _client(args) as client:
        client.stop_fitting(args.name)
    print(f"the work on {args.name} ends; the voice stays as it is")
    return 0


def run_remove(args: argparse.Namespace) -> int:
    """Delete a voice by its server; without --url, the file on this machine."""
    from conch import fitted_voices

    if args.url:
        with _client(args) as client:
            client.remove_voice(args.name)
    elif not fitted_voices.remove(args.name):
        names = ", ".join(item.shown.name for item in fitted_voices.all_stored())
        raise ConchError(f"{args.name} is no fitted voice; there are: {names or 'none'}")
    print(f"{args.name} is removed")
    return 0


@contextmanager
def _client(args: argparse.Namespace) -> "Iterator[Client]":
    from conch.client import Client

    headers = headers_of(args)
    with server_that_fits(args.url) as url, Client(url, headers=headers) as client:
        yield client


def lines_of(voices: Sequence[FittedVoice]) -> Iterator[str]:
    for voice in voices:
        yield f"{voice.name:12} {'fitted':6} {voice.error or summary(voice)}"
