"""Turn a long recording into subtitles next to it: one request, whatever the length.

How to run it:

    conch serve &
    python examples/long_file_to_srt.py lecture.mp3
"""

import argparse
from pathlib import Path

from conch.client import Client
from conch.wire.formats import to_srt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--url", default="grpc://127.0.0.1:8001")
    parser.add_argument("--output", type=Path, help="default: the file with the suffix .srt")
    args = parser.parse_args()
    output = args.output or args.file.with_suffix(".srt")

    with Client(args.url, timeout_s=12 * 3600) as client:
        # Word times let a cue end where a sentence or a breath does.
        transcript = client.transcribe(args.file, word_timestamps=True)
    output.write_text(to_srt(transcript), encoding="utf-8")

    seconds = transcript.stages["total"].ms / 1000
    print(f"{output}: {transcript.duration:.0f} s of audio in {seconds:.1f} s")


if __name__ == "__main__":
    main()
