"""Live captions in three shades: firm words plain, tentative ones dim, the newest dimmest.

How to run it, with a mono recording in place of a microphone:

    conch serve &
    python examples/live_captions.py talk.wav
"""

import argparse
import shutil
import time

import soundfile

from conch.client import Client
from conch.wire.result import Transcript

CHUNK_S = 0.2
SHADES = {"firm": "\x1b[0m", "tentative": "\x1b[2m", "newest": "\x1b[2;90m"}
CLEAR = "\x1b[1G\x1b[0m\x1b[K"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--url", default="grpc://127.0.0.1:8001")
    args = parser.parse_args()
    rate = soundfile.info(args.file).samplerate
    ended: dict[int, str | None] = {}
    with Client(args.url) as client, client.live(sample_rate=rate) as stream:
        for chunk in soundfile.blocks(args.file, int(rate * CHUNK_S), dtype="int16"):
            time.sleep(CHUNK_S)
            show(stream.send(chunk), ended)
        show(stream.finish(), ended)


def show(answer: Transcript, ended: dict[int, str | None]) -> None:
    """Print utterances that are final, and below them, on one line, those that may change."""
    for utterance in answer.segments:
        # The last answer repeats them all. None stands for a text that was printed.
        if ended.get(utterance.index, "") is not None:
            is_final = utterance.passes == 2 or utterance.error or answer.is_final
            ended[utterance.index] = None if is_final else utterance.text
            print(f"{CLEAR}{utterance.text}\n" if is_final and utterance.text else "", end="")
    waiting = " ".join(text for text in ended.values() if text)
    words = [("tentative", word) for word in waiting.split()]
    for part in SHADES:
        words += [(part, word.text) for word in getattr(answer.utterance, part, ())]
    while sum(len(word) + 1 for _, word in words) > shutil.get_terminal_size().columns:
        del words[0]
    print(CLEAR + " ".join(SHADES[part] + word for part, word in words), end="", flush=True)


if __name__ == "__main__":
    main()
