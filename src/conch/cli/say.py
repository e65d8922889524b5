"""`conch say` and `conch voices`: speak a text, and list who can."""

import argparse
import codecs
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, fields
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast

from conch import fitted_voices
from conch.audio.encoding import CONTENT_TYPES, wav_header
from conch.cli import fit
from conch.cli.arguments import Subparsers, UsageError, add_command, add_flags, output
from conch.cli.option_flags import add_option_flags, given_options, reference_text
from conch.cli.server import BEFORE, HEADERS, URL, headers_of, server_for_voice
from conch.client import Client, Speech
from conch.client.asynchronous import has_streams
from conch.client.endpoint import Address, Endpoint
from conch.client.gateway import is_gateway, voices_of
from conch.client.speech import IN_PARTS
from conch.families import add_voices, all_families, replace_voices, traits
from conch.families.family import AddedVoice, Voice
from conch.packaged import install
from conch.whole import whole_file
from conch.wire.errors import ConchError, OptionError, ServerError
from conch.wire.synthesis import SynthesisOptions

EXAMPLES = """
examples:
  conch say "Hello there."                    starts a server, and plays the sound
  conch say -o hello.mp3 "Hello there."
  conch say --url http://127.0.0.1:9000 --speed 1.2 < chapter.txt
  some-program | conch say                    speaks each sentence as soon as it is written
  conch say --url grpc://127.0.0.1:8001 --format pcm_s16 -o - "Hello." | aplay -f S16_LE -r 24000
  conch say --piper my_voices "Hello."        with a voice of Piper of your own
  conch voices                                lists the voices

The format of a file is that of its suffix. The sound starts while the rest is still made. To play
it, the command needs aplay, pacat, play (SoX) or ffplay.

exit codes: 0 spoken, 1 not or not all of it, 2 wrong usage, 130 Ctrl-C
"""
FLAGS = """
-o FILE         write the audio there; - is stdout; without it the sound is played
--piper FOLDER  speak with a voice of Piper in it, the first or --voice: NAME.onnx and
                NAME.onnx.json of each
"""
VOICES_FLAGS = """
--url URL       list those of this gateway
--piper FOLDER  list the voices of Piper in it too
"""
PLAYERS: dict[str, str] = {
    "aplay": "-q -t raw -f S16_LE -c 1 -r {rate}",
    "pacat": "--raw --format=s16le --channels=1 --rate={rate}",
    "play": "-q -t raw -e signed -b 16 -c 1 -r {rate} -",
    "ffplay": "-loglevel error -nodisp -autoexit -f s16le -ar {rate} -i -",
}
"""Programs that play raw samples of stdin, and their arguments."""
SUFFIXES = {"ogg": "opus", "raw": "pcm_s16", "pcm": "pcm_s16", "f32": "pcm_f32"}
"""Formats of suffixes that are not the name of one."""
HEARD = "The source of the huge river is the clear spring."
"""Text of `conch voices like` whose sound is compared."""
READ_BYTES = 65_536
_WITHOUT_FLAG = ("timestamps", "deadline_ms", "lead_ms")


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "say",
        run,
        help="speak a text",
        description="Speak a text: play it, or write it as a file.",
        epilog=EXAMPLES,
    )
    parser.add_argument("text", nargs="?", default="-", help="the text (default: -, stdin)")
    add_flags(parser, FLAGS + URL + HEADERS)
    known = [item for item in fields(SynthesisOptions) if item.name not in _WITHOUT_FLAG]
    add_option_flags(parser, known=known, title="options of the voice")
    voices = add_command(
        subparsers,
        "voices",
        list_voices,
        help="list the voices that speak texts",
        usage="%(prog)s [--url URL] [--piper FOLDER] [like | fit | stop | remove] ...",
    )
    add_flags(voices, VOICES_FLAGS + HEADERS)
    commands = voices.add_subparsers(metavar="COMMAND", prog="conch voices")
    like = add_command(
        commands, "like", run_like, help="find the mix of voices that is nearest to a recording"
    )
    like.add_argument(
        "reference",
        type=reference_text,
        metavar="FILE|NAME",
        help="a recording of 3 to 20 s, or a voice of conch speakers add",
    )
    fit.add_parsers(commands)
    add_flags(like, URL + HEADERS, **BEFORE)


def list_voices(args: argparse.Namespace) -> int:
    if args.piper and args.url:
        raise UsageError("--piper lists voices of this machine, and --url those of a gateway")
    if args.url:
        endpoint = Endpoint.parse(args.url, headers=headers_of(args))
        if endpoint.address.is_grpc or not is_gateway(endpoint):
            raise UsageError(f"--url takes that of a gateway, which lists voices; got {endpoint}")
        for voice in voices_of(endpoint):
            print(line_of(voice))
        return 0
    for added in added_by(args.piper):
        print(line_of(added))
    for line in fit.lines_of([item.shown for item in fitted_voices.all_stored()]):
        print(line)
    for family in all_families():
        for synthesizer in family.synthesizers:
            package = traits()[synthesizer.acoustic].package
            lacking = package and package.lacking
            how = f"  ({lacking.command or install('server')})" if lacking else ""
            for voice in synthesizer.voices:
                print(f"{line_of(voice)}{how}")
    return 0


def line_of(voice: Voice | AddedVoice) -> str:
    return f"{voice.name:12} {voice.language:6} {voice.description}"


def added_by(folder: str | None) -> Sequence[AddedVoice]:
    """Let this process know the voices of Piper in a folder, and return them; none without one."""
    if not folder:
        return ()
    from conch.catalogue.models import KINDS, checked, find

    kind = KINDS["piper"]
    voices = checked(kind, find(kind, folder)).voices
    add_voices(json.dumps([asdict(voice) for voice in voices]))
    return voices


def run_like(args: argparse.Namespace) -> int:
    if args.piper:
        raise UsageError("like mixes Kokoro's voices: leave out --piper")
    options = SynthesisOptions(reference=args.reference)
    headers = headers_of(args)
    with server_for_voice(args.url, options) as url, Client(url, headers=headers) as client:
        answer = client.synthesize(HEARD, reference=args.reference).spoken
    similarity = "unknown" if answer.similarity is None else f"{answer.similarity:.2f}"
    print(f"{answer.voice}  (similarity {similarity})")
    return 0


def run(args: argparse.Namespace) -> int:
    if args.piper and args.url:
        raise UsageError("--piper is for a server that this command starts, and --url names one")
    replace_voices(fitted_voices.own_voices({fitted_voices.VARIABLE: "1"}))
    headers, added = headers_of(args), added_by(args.piper)
    options = {"format": format_of(args), **given_options(args, fields(SynthesisOptions))}
    if added and not options.keys() & {"voice", "reference"}:
        options["voice"] = added[0].name
    if player := (None if args.o else installed_player()):
        options["format"] = "pcm_s16"
        if getattr(args, "format", "pcm_s16") != "pcm_s16":
            raise UsageError(f"--format is that of a file, -o FILE; sent: {args.format}")
    is_wav = options["format"] == "wav"
    # Samples are spoken as the text comes. The size in the header is known at the end.
    options["format"] = "pcm_s16" if is_wav else options["format"]
    try:
        parsed = SynthesisOptions.parse(options, any_voice=bool(args.url))
        if args.url:
            Address.parse(args.url)
        file = output(args.o or "-")
    except (OptionError, ServerError, argparse.ArgumentTypeError) as error:
        raise UsageError(str(error)) from None
    text = texts_of_stdin() if args.text == "-" else args.text
    weights = {"piper": args.piper} if args.piper else {}
    with server_for_voice(args.url, parsed, weights) as url, Client(url, headers=headers) as client:
        endpoint = Endpoint.parse(url, headers=headers)
        with closing(speech(client, endpoint, text, options)) as pieces:
            if player:
                last = played(pieces, player)
            elif args.o == "-":
                last = written(pieces, sys.stdout.buffer, is_wav=is_wav)
            else:
                last = saved(pieces, file, is_wav=is_wav)
    for warning in last.spoken.warnings:
        print(f"conch: {warning}", file=sys.stderr)
    return 0


def texts_of_stdin() -> Iterator[str]:
    """Yield the text of stdin as it comes; raise a UsageError if it is no UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    # Not the reader of sys.stdin: Python cannot end while a thread waits in that one.
    pipe = cast(io.BufferedReader, sys.stdin.buffer).raw
    try:
        while data := pipe.read(READ_BYTES):
            yield decoder.decode(data)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise UsageError(f"the text takes UTF-8: {error}") from None


def speech(
    client: Client, endpoint: Endpoint, text: str | Iterator[str], options: dict[str, Any]
) -> Generator[Speech, None, None]:
    """Yield the audio of a text as it comes; over http:// of a Triton all at once."""
    if has_streams(endpoint):
        yield from client.synthesize_stream(text, **options)
    else:
        yield client.synthesize(text, **options)


def written(pieces: Iterable[Speech], file: IO[bytes], *, is_wav: bool = False) -> Speech:
    for piece in pieces:
        if is_wav:
            file.write(wav_header(piece.spoken.sample_rate))
            is_wav = False
        file.write(piece.audio or piece.waveform.astype("<f4").tobytes())
        file.flush()
    return piece


def saved(pieces: Iterator[Speech], path: Path, *, is_wav: bool) -> Speech:
    """Write a whole file of pieces and return the last one; raise a ConchError if it fails."""
    try:
        with whole_file(path) as file:
            last = written(pieces, file, is_wav=is_wav)
            # /dev/null can be sought in, and stays at 0.
            if is_wav and file.seekable() and (end := file.tell()):
                rate = last.spoken.sample_rate
                file.seek(0)
                file.write(wav_header(rate, end - len(wav_header(rate))))
    except OSError as error:
        raise ConchError(f"-o {path} cannot be written: {error}") from None
    return last


def played(pieces: Iterator[Speech], player: str) -> Speech:
    """Play the audio of pieces as 16-bit samples come; return the last one."""
    first = next(pieces)
    arguments = PLAYERS[Path(player).name].format(rate=first.spoken.sample_rate).split()
    with subprocess.Popen([player, *arguments], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        last = first
        with suppress(BrokenPipeError), process.stdin as file:
            last = written(chain([first], pieces), file)
    if process.returncode:
        raise ConchError(f"{player} could not play the sound: write a file instead, -o FILE")
    return last


def installed_player() -> str:
    for name in PLAYERS:
        if path := shutil.which(name):
            return path
    raise UsageError(
        f"no player is installed ({', '.join(PLAYERS)}): install one, or write a file: -o FILE"
    )


def format_of(args: argparse.Namespace) -> str:
    """Return the format of the suffix, or raise a UsageError; 16-bit samples for a player."""
    if args.o is None:
        return "pcm_s16"
    if args.o == "-":
        return "wav"
    suffix = Path(args.o).suffix[1:].lower()
    format = SUFFIXES.get(suffix, suffix)
    requested = getattr(args, "format", format)
    if format in CONTENT_TYPES and requested != format and not {requested, format} <= {*IN_PARTS}:
        raise UsageError(
            f"-o {args.o} is of the format {format}, and --format is {requested}: leave out "
            "--format, or give the file another suffix"
        )
    if format not in CONTENT_TYPES and "format" not in args:
        known = ", ".join((*CONTENT_TYPES, *SUFFIXES))
        raise UsageError(
            f"-o takes a file with the suffix of a format ({known}), or --format; sent: {args.o}"
        )
    return format
