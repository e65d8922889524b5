"""Print each segment of a long recording as soon as it is final, with its times.

How to run it:

    conch serve &
    python examples/stream_long_file.py lecture.mp3
"""

import argparse

from conch.client import Client, joined_parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    # A stream goes over gRPC; HTTP has server-sent events: docs/guide/protocol.md.
    parser.add_argument("--url", default="grpc://127.0.0.1:8001")
    args = parser.parse_args()

    parts = []
    with Client(args.url) as client:
        for part in client.stream(args.file):
            parts.append(part)
            # None in the last part, which brings the figures of the whole.
            for segment in part.segments:
                times = f"{clock(segment.start)} - {clock(segment.end)}"
                print(f"{times}  {segment.text}", flush=True)

    whole = joined_parts(parts)
    seconds = whole.stages["total"].ms / 1000
    print(f"{len(whole.segments)} segments, {whole.duration:.0f} s of audio in {seconds:.1f} s")


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60:3d}:{seconds % 60:04.1f}"


if __name__ == "__main__":
    main()
