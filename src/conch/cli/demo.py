"""`conch demo`: transcribe real speech with a real server, fast and at its best, and speak it."""

import argparse
import os
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from tempfile import NamedTemporaryFile
from time import perf_counter
from typing import TYPE_CHECKING

from conch.cli.arguments import Subparsers, add_command, add_flags
from conch.cli.gateway import DEFAULT_ADDRESS
from conch.cli.say import saved
from conch.cli.server import NO_WEIGHTS, WEIGHTS, config_for, weights_of
from conch.families import voices
from conch.wire.entry_points import SYNTHESIS
from conch.wire.result import Hypothesis, Transcript
from conch.wire.synthesis import DEFAULT_VOICE

if TYPE_CHECKING:
    from conch.client import Client

SPEECH = Path(__file__).parents[1] / "samples" / "tiger.ogg"
NBEST = 3
MIN_TEXT_WIDTH = 30


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "demo",
        run,
        help="see it work: speech through a server, fast and at its best",
        description="Start a server on free ports of 127.0.0.1, and transcribe seven seconds of"
        " speech with accuracy=fast and accuracy=best. Print texts, scores, and the components"
        " called with their times. Speak the text into a file, stop the server, and print the"
        " address of the page of conch serve.",
    )
    add_flags(parser, WEIGHTS, **NO_WEIGHTS)


def run(args: argparse.Namespace) -> int:
    import soundfile

    from conch.client import Client

    # Only a command that starts a server needs its packages.
    from conch.launcher import TritonServer

    # A wrong name fails before a message about a server.
    speaking = *SYNTHESIS, *voices()[DEFAULT_VOICE].components
    config = config_for([{"accuracy": "best"}], weights_of(args), others=speaking)
    duration = soundfile.info(SPEECH).duration
    print(f"speech  {SPEECH.name}, {duration:.1f} s, on {os.cpu_count()} CPU cores")
    print("server  starting", flush=True)

    begun = perf_counter()
    with TritonServer(config) as server, server.healing():
        print(f"server  ready after {perf_counter() - begun:.1f} s at {server.http_url}")
        with Client(server.http_url) as client:
            # The first request runs on cold caches: do not show its times.
            client.transcribe(SPEECH, accuracy="best", nbest=NBEST)
            transcripts = {}
            for name in ("fast", "best"):
                transcript = client.transcribe(SPEECH, accuracy=name, nbest=NBEST)
                transcripts[name] = transcript
                print(f"\naccuracy={name}: {' -> '.join(transcript.path)}")
                print("\n".join(score_table(transcript)), flush=True)
        print()
        print("\n".join(time_table(transcripts)), flush=True)
        with Client(f"grpc://{server.grpc_url}") as client:
            print(f"\n{spoken(client, transcripts['best'].text)}")
    print("\nserver  stopped")
    print(
        "\nNext: conch serve (make serve in a checkout), and the page is at "
        f"http://{DEFAULT_ADDRESS}\n"
        f"      curl -F file=@talk.mp3 http://{DEFAULT_ADDRESS}/v1/audio/transcriptions"
    )
    return 0


def spoken(client: "Client", text: str) -> str:
    for _ in client.synthesize_stream("The first one is on cold caches too."):
        pass
    begun = perf_counter()
    pieces = client.synthesize_stream(text, format="pcm_s16")
    first = next(pieces)
    first_ms = 1000 * (perf_counter() - begun)
    with NamedTemporaryFile(prefix="conch-demo-", suffix=".wav", delete=False) as file:
        last = saved(chain([first], pieces), Path(file.name), is_wav=True)
    seconds = last.spoken.duration
    return f"spoken  {seconds:.1f} s, the first audio after {first_ms:.0f} ms: {file.name}"


def score_table(transcript: Transcript) -> Iterator[str]:
    heading = f"{'score':>9}{'am':>9}{'lm':>9}{'ctc':>9}{'words':>7}  "
    yield f"{heading}text"
    width = max(shutil.get_terminal_size().columns - len(heading), MIN_TEXT_WIDTH)
    for hypothesis in transcript.nbest:
        label = f"{hypothesis.score:9.2f}{hypothesis.am_score:9.2f}{_opinions(hypothesis)}  "
        for line in textwrap.wrap(hypothesis.text, width) or [""]:
            yield label + line
            label = " " * len(heading)


def _opinions(hypothesis: Hypothesis) -> str:
    scores = (hypothesis.lm_score, hypothesis.ctc_score)
    cells = [f"{'-' if score is None else format(score, '.2f'):>9}" for score in scores]
    words = "-" if hypothesis.num_words is None else str(hypothesis.num_words)
    return "".join(cells) + f"{words:>7}"


def time_table(transcripts: Mapping[str, Transcript]) -> Iterator[str]:
    stages = [transcript.stages for transcript in transcripts.values()]
    yield f"{'time per stage (ms)':20}" + "".join(f"{title:>15}" for title in transcripts)
    names = dict.fromkeys(name for each in stages for name in each if name != "total")
    for name in (*names, "total"):
        times = [f"{each[name].ms:.1f}" if name in each else "-" for each in stages]
        yield f"  {name:18}" + "".join(f"{time:>15}" for time in times)
    speeds = [item.duration * 1000 / item.stages["total"].ms for item in transcripts.values()]
    yield f"  {'times real time':18}" + "".join(f"{speed:15.1f}" for speed in speeds)
