"""`conch speakers`: enrol voices, list them, and remove them."""

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from conch.cli.arguments import Subparsers, UsageError, add_command
from conch.cli.server import add_server_flags, given_server, server_url
from conch.wire.errors import ConchError, ConfigError
from conch.wire.known_speakers import LEAST_S, OTHER_S, VOICE_MODEL, embedding_of, embedding_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from conch.wire.result import Speaker

EPILOG = """
examples:
  conch speakers add Ann ann.wav                     8 s of speech are enough, 30 s are better
  conch speakers add 'Ben Lee' call-1.mp3 call-2.mp3
  conch speakers list
  conch transcribe meeting.mp3 --known-speakers Ann,'Ben Lee'   (or all)
  conch speakers remove Ann

A voice print is personal data: ask before you enrol somebody. It is kept in
$XDG_DATA_HOME/conch/speakers (~/.local/share/conch/speakers), which you alone can read. The audio
is not kept.

exit codes: 0 done, 1 failed, 2 wrong usage, 130 Ctrl-C
"""
ENROLMENT: dict[str, Any] = {"decoder": "none", "speakers": "auto", "speaker_embeddings": True}
ENOUGH_S = 8.0
SAME = 0.5
"""Cosine below which two files are of different people."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "speakers",
        run_list,
        help="enrol voices, so that transcripts have names",
        usage="%(prog)s [add NAME FILE... | list | remove NAME] ...",
        description="Enrol the voices of people, list them, and remove them.",
        epilog=EPILOG,
    )
    commands = parser.add_subparsers(metavar="COMMAND", prog="conch speakers")
    add = add_command(
        commands,
        "add",
        run_add,
        help="enrol a voice from files in which one person speaks",
        usage="conch speakers add NAME FILE... [--url URL] ...",
        description="Enrol a voice, in place of one with the same name.",
    )
    add.add_argument("name", metavar="NAME", help="what transcripts call the person")
    add.add_argument("files", nargs="+", metavar="FILE", help="audio files of this person alone")
    add_server_flags(add)
    add_command(commands, "list", run_list, help="list the enrolled voices")
    remove = add_command(commands, "remove", run_remove, help="delete an enrolled voice")
    remove.add_argument("name", metavar="NAME", help="as conch speakers list shows it")


def run_list(args: argparse.Namespace) -> int:
    from conch.client.speakers import enrolled_voices

    voices = enrolled_voices()
    for item in voices:
        print(f"{item.name}  {item.seconds:.0f} s  {item.added}")
    if not voices:
        print("nobody is enrolled: conch speakers add NAME FILE... enrols a voice")
    return 0


def run_remove(args: argparse.Namespace) -> int:
    from conch.client.speakers import known_speakers, voice_file

    known_speakers([args.name])
    voice_file(args.name).unlink()
    print(f"{args.name} is removed")
    return 0


def run_add(args: argparse.Namespace) -> int:
    from conch.client import Client
    from conch.client.speakers import EnrolledVoice, keep, voice_file

    try:
        was_there = voice_file(args.name).exists()
    except ConfigError as error:
        raise UsageError(str(error)) from None
    headers, weights = given_server(args)
    with server_url(args.url, [ENROLMENT], weights) as url, Client(url, headers=headers) as client:
        names = args.files
        speakers = [_alone(name, client.transcribe(name, **ENROLMENT).speakers) for name in names]
    sounds = _sounds(args.files, speakers)
    seconds = round(sum(item.seconds for item in speakers), 1)
    if seconds < ENOUGH_S:
        hint = f"names are surer with {ENOUGH_S:g}"
        print(f"conch: {seconds} s of speech are few: {hint}", file=sys.stderr)
    today = datetime.now(timezone.utc).date().isoformat()
    text = embedding_text(sum(sounds[1:], start=sounds[0]))
    path = keep(
        EnrolledVoice(
            name=args.name, embedding=text, model=VOICE_MODEL, seconds=seconds, added=today
        )
    )
    instead = ", in place of the voice before" if was_there else ""
    print(f"{args.name} is enrolled from {seconds} s of speech, in {path}{instead}")
    return 0


def _alone(name: str, speakers: "Sequence[Speaker]") -> "Speaker":
    ranked = sorted(speakers, key=lambda item: -item.seconds)
    if not ranked or ranked[0].seconds < LEAST_S:
        length = ranked[0].seconds if ranked else 0.0
        raise ConchError(f"{name} has {length:.1f} s of speech; at least {LEAST_S} s are needed")
    if len(ranked) > 1 and ranked[1].seconds >= OTHER_S:
        shares = ", ".join(f"{item.seconds:.1f} s" for item in ranked)
        raise ConchError(f"{name} has {len(ranked)} voices ({shares}): it takes one person alone")
    return ranked[0]


def _sounds(names: Sequence[str], speakers: "Sequence[Speaker]") -> "list[NDArray[np.float32]]":
    """Return how each file sounds, by its seconds, after a check that all are of one person."""
    sounds = [embedding_of(str(item.embedding)) for item in speakers]
    for name, sound in zip(names, sounds, strict=True):
        if (cosine := float(sound @ sounds[0])) < SAME:
            raise ConchError(
                f"{name} sounds like somebody else than {names[0]}: cosine {cosine:.2f}, of one "
                f"person at least {SAME}"
            )
    return [sound * item.seconds for sound, item in zip(sounds, speakers, strict=True)]
