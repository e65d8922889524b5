"""`conch stream`: transcribe live audio while it is spoken."""

import argparse
import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from conch.cli.arguments import Subparsers, UsageError, add_command, add_flags, number, positive
from conch.cli.captions import Captions, Line, OpenLines
from conch.cli.option_flags import add_option_flags, given_options
from conch.cli.progress import STDIN
from conch.cli.server import add_server_flags, checked_options, given_server, server_url
from conch.client.live import RESUME_S, Resumption
from conch.families import decoders
from conch.wire.errors import ConchError
from conch.wire.needs import LIVE_MODES
from conch.wire.options import RecognitionOptions
from conch.wire.result import Transcript

EXAMPLES = """
examples:
  conch stream talk.wav                              as if it were spoken now
  conch stream talk.wav --speed 0 --json             as fast as the server goes, every answer
  conch stream --mic                                 a microphone, until Ctrl-C
  conch stream talk.wav --speakers auto              a line for each turn, with its speaker
  ffmpeg -i URL -f ogg - | conch stream -            anything that FFmpeg reads
  arecord -q -f S16_LE -r 16000 -c 1 | conch stream - --url grpc://gpu-box:8001
  conch stream --mic --url https://gateway.example.org --header 'X-Team: newsroom'

The command recognises a container (wav, mp3, flac, ogg, m4a, webm, ...) by its first bytes and
takes its sample rate.

On a terminal the last lines, below the final utterances, may still change: firm words are plain,
tentative ones dim, the newest dimmest. NO_COLOR turns the shades off. Elsewhere each final
utterance is one line; if the stream breaks off, the open ones follow as last known. If the server
is lost, the command looks for one for --resume-s seconds and continues the stream; lines on stderr
say so. Ctrl-C ends the stream and writes the remaining text. A second one, or one during that
search, ends at once.

exit codes: 0 done (also by Ctrl-C on stdin or a microphone), 1 failed, 2 wrong usage, 130 Ctrl-C
"""


FLAGS = f"""
--mic             listen to the default microphone
--chunk-ms N=200  milliseconds of a chunk
--speed X=1       speed of a file; 1 is real time, 0 does not wait
--rate HZ=16000   sample rate of raw samples or --mic
--raw             read stdin as raw samples, whatever its first bytes
--json            write every answer, one JSON object per line
--resume-s S={RESUME_S:g}   seconds to look for a server after one was lost, and continue there;
                  0 for none
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "stream",
        run,
        help="transcribe live audio",
        usage="%(prog)s (FILE | - | --mic) [--url URL] [--mode MODE] ...",
        description="Send audio as it is spoken and write the text as it is known.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="an audio file; - reads stdin: raw 16-bit samples, or a container (wav, mp3, …)",
    )
    add_server_flags(parser)
    speed = number("a number from 0 to 1000", lambda value: 0 <= value <= 1000)
    resume_s = number("a number from 0 up", lambda value: value >= 0)
    add_flags(parser, FLAGS, chunk_ms=positive, speed=speed, rate=positive, resume_s=resume_s)
    parser.add_argument(
        "--channels",
        dest="raw_channels",
        type=positive,
        default=1,
        metavar="N",
        help="channels of raw samples (default: 1)",
    )
    heard = [name for name, decoder in decoders().items() if decoder.components]
    choices = {"mode": ("auto", *LIVE_MODES), "decoder": heard}
    add_option_flags(parser, without=("channels",), choices=choices)


def run(args: argparse.Namespace) -> int:
    options, parsed = _options(args)
    headers, weights = given_server(args)
    from conch.cli import live_audio
    from conch.client import Client

    if args.mic:
        audio = live_audio.of_microphone(args.rate, args.chunk_ms)
    elif args.file == STDIN:
        audio = live_audio.of_stdin(args.rate, args.raw_channels, args.chunk_ms, is_raw=args.raw)
    else:
        audio = live_audio.of_file(Path(args.file), args.chunk_ms, args.speed)
    with (
        Interrupts() as interrupts,
        server_url(args.url, [options], weights, live=True) as url,
        Client(url, headers=headers) as client,
        closing(Writer(sys.stdout, parsed, is_json=args.json)) as show,
    ):

        def on_loss(error: ConchError) -> None:
            interrupts.end_at_once = True
            show.say(f"conch: {_reason(error)}; looking for a server, {args.resume_s:g} s at most")

        live = client.live(
            sample_rate=audio.sample_rate, resume_s=args.resume_s, on_loss=on_loss, **options
        )
        with live as stream:
            num_reported = 0
            for chunk in audio.chunks:
                show(stream.send(chunk))
                interrupts.end_at_once = False
                num_reported = report(stream.resumptions, num_reported, show)
                if interrupts.pressed:
                    break
            last = stream.finish()
        show(last)
        report(stream.resumptions, num_reported, show)
    for error in dict.fromkeys(segment.error for segment in last.segments if segment.error):
        print(f"conch: {error}", file=sys.stderr)
    return 130 if interrupts.pressed and args.file not in (None, STDIN) else 0


def report(resumptions: Sequence[Resumption], num_reported: int, writer: "Writer") -> int:
    for item in resumptions[num_reported:]:
        writer.say(
            f"conch: {_reason(item.error)}; continued after {item.waited_s:.1f} s, "
            f"{item.sent_again_s:.1f} s of audio sent again"
        )
    return len(resumptions)


def _reason(error: ConchError) -> str:
    return str(error).partition(";")[0]


class Interrupts:
    """Records Ctrl-C inside a `with` block; a second one raises as usual.

    A KeyboardInterrupt in the middle of a request would cancel it, and end the stream.
    """

    def __init__(self) -> None:
        self.pressed = False
        self.end_at_once = False
        """Whether even the first Ctrl-C raises: there is no request to cancel."""

    def __enter__(self) -> "Interrupts":
        self._before = signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, *exc_info: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.pressed or self.end_at_once:
            raise KeyboardInterrupt
        self.pressed = True


class Writer:
    """Writes answers as JSON or as final utterances, on a terminal with the open ones below."""

    def __init__(self, out: TextIO, options: RecognitionOptions, *, is_json: bool) -> None:
        self._out, self._is_json = out, is_json
        self._captions = Captions(has_second_pass=options.mode == "two_pass")
        self._open: tuple[Line, ...] = ()
        self._terminal = OpenLines(out, os.environ) if out.isatty() and not is_json else None

    def __call__(self, transcript: Transcript) -> None:
        if self._is_json:
            self._print([transcript.to_json()])
            return
        caption = self._captions.after(transcript)
        self._open = caption.open
        if self._terminal:
            self._terminal.show(caption.final, caption.open)
        else:
            self._print(caption.final)

    def say(self, line: str) -> None:
        if self._terminal:
            self._terminal.show([line], self._open)
        else:
            print(line, file=sys.stderr)

    def close(self) -> None:
        """Leave the open utterances of a stream that broke off, as last known."""
        if self._terminal:
            self._terminal.close()
        else:
            self._print(line.text for line in self._open)

    def _print(self, lines: Iterable[str]) -> None:
        for line in lines:
            print(line, file=self._out, flush=True)


def _options(args: argparse.Namespace) -> tuple[Mapping[str, Any], RecognitionOptions]:
    if (args.file is None) != args.mic:
        raise UsageError("name a file, or - for stdin, or --mic")
    if args.raw and args.file != STDIN:
        raise UsageError("--raw goes with - (stdin)")
    if args.file == STDIN and sys.stdin.isatty():
        raise UsageError(
            "- reads stdin, which is a terminal: pipe audio into it, as in the examples"
        )
    options = given_options(args)
    return options, checked_options(options, [args.url], live=True)
