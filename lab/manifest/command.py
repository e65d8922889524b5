"""`python -m lab manifest`: make the manifest of a corpus on disk."""

import argparse
import sys
from collections import Counter
from pathlib import Path

from conch.cli.arguments import Subparsers, add_command, output
from conch.wire.errors import BenchError

MANIFEST_EPILOG = """
The content of a folder shows its layout:
  LibriSpeech   *.trans.txt in any folder below
  Common Voice  train.tsv, dev.tsv and test.tsv, or else validated.tsv, and clips
  AISHELL       transcript/aishell_transcript*.txt and wav
  Kaldi         wav.scp and text. Commands in wav.scp are not run. With segments, utterances are cut
                into FLAC files in a folder next to the manifest, named like it and -segments

examples:
  python -m lab manifest LibriSpeech/dev-clean
  python -m lab offline --manifest LibriSpeech/dev-clean/manifest.tsv --join 600
  python -m lab manifest cv-corpus-22.0/en -o common-voice.tsv

exit codes: 0 written, 1 not written, 2 wrong usage
"""


def add_manifest(commands: Subparsers) -> None:
    """Add the command to those of the laboratory."""
    parser = add_command(
        commands,
        "manifest",
        run_manifest,
        help="write the manifest of a LibriSpeech, Common Voice, AISHELL or Kaldi folder",
        description="Write the manifest of a LibriSpeech, Common Voice, AISHELL or Kaldi folder, "
        "for the other benchmarks.",
        epilog=MANIFEST_EPILOG,
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument(
        "-o",
        "--output",
        type=output,
        metavar="FILE.tsv",
        help="(default: manifest.tsv in FOLDER, if that does not exist yet)",
    )


def run_manifest(args: argparse.Namespace) -> int:
    """Write the manifest, print its sizes and return the exit code."""
    from lab.manifest.corpora import read_corpus
    from lab.manifest.writing import write_manifest

    file = args.output or args.folder / "manifest.tsv"
    if not args.output and file.exists():
        raise BenchError(f"{file} exists; name another one with -o, or the same to replace it")
    corpus = read_corpus(args.folder, file.with_name(f"{file.stem}-segments"))
    write_manifest(file, corpus.utterances)
    splits = Counter(utterance.split for utterance in corpus.utterances)
    counts = ", ".join(f"{count} of {split}" for split, count in splits.items())
    print(f"{file}: {corpus.layout}, utterances: {counts}")
    if corpus.missing:
        print(
            f"left out {len(corpus.missing)} that have a text but no audio file, such as "
            f"{corpus.missing[0]}",
            file=sys.stderr,
        )
    return 0
