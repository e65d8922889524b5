"""Transcribe one file over HTTP, and the same as a waveform, with word times.

How to run it:

    conch serve &
    python examples/http_transcribe.py speech.wav
"""

import argparse

import soundfile

from conch.client import Client


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    args = parser.parse_args()

    with Client(args.url) as client:
        # A file travels as it is; the server decodes it.
        print(client.transcribe(args.file).text)

        # Samples travel as floats, at their own rate: [samples], mono.
        samples, sample_rate = soundfile.read(args.file, dtype="float32", always_2d=True)
        transcript = client.transcribe(
            samples.mean(axis=1), sample_rate=sample_rate, word_timestamps=True
        )
        for word in transcript.words:
            print(f"{word.start:7.2f} {word.end:7.2f}  {word.confidence:4.2f}  {word.text}")


if __name__ == "__main__":
    main()
