"""`conch agree`: label recordings where two recognisers agree on the text."""

import argparse
import asyncio
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conch.catalogue.models import KINDS
from conch.cli.arguments import (
    Subparsers,
    UsageError,
    add_command,
    add_flags,
    number,
    output,
    positive,
)
from conch.cli.progress import FileBar
from conch.cli.server import add_server_flags, checked_options, given_server, server_url, weights_of
from conch.packaged import install
from conch.wire.errors import BulkError, OptionError
from conch.wire.option_values import words_of
from conch.wire.options import RecognitionOptions

if TYPE_CHECKING:
    from conch.bulk.inputs import Source
    from conch.pseudo_labels.journal import Entry, RecogniserSettings
    from conch.pseudo_labels.labels import LabelFilter

OF_SEGMENTS = ("vad_", "max_segment_s")
"""Prefixes of the options that make the segments, in addition to `vad`."""
DECODERS = words_of(RecognitionOptions.__dataclass_fields__["decoder"])
_OPTION = re.compile(r"\w+=(?!>)")
"""Start of `name=value`; `=>` belongs to a rule of `replace`."""

EXAMPLES = """
examples:
  conch agree calls --a attention --b wfst,rescore=true --out labelled.tsv
  conch agree calls more.tsv '2024/*.flac' --a attention,beam_size=10 --b ctc,lm_fusion=true \\
      --max-cer 0.05 --out labelled.tsv --rejected rejected.tsv
  conch agree talks --by segment --cut pieces --a attention --b wfst --out labelled.tsv
  conch agree dev.tsv --a attention --b wfst --out labelled.tsv --references dev.tsv
  conch agree calls --url-a grpc://one:8001 --a attention --url-b grpc://two:8001 --b attention \\
      --out labelled.tsv

FILE is an audio file, a folder, a glob, or a manifest (.tsv with a column path). A recogniser is a
decoder, options as name=value, or both, separated by commas. Run the same command again to continue
a run and to retry what failed. Another --max-cer or --text needs no recogniser.

docs/guide/pseudo-labels.md describes the columns and how to choose a threshold.

exit codes: 0 all files done, 1 a file failed (the others are done), or the run cannot go on,
2 wrong usage, 130 Ctrl-C
"""


FLAGS = """
--a RECOGNISER!           decoder and options, as attention or wfst,rescore=true
--b RECOGNISER!           decoder and options, as attention or wfst,rescore=true
--max-cer X=0.1           keep texts whose character error rate, b against a, is at most X
--text {a,b}=a            side whose text is the label
--by {file,segment}=file  label whole files, or the segments of the voice activity detection
--cut DIR                 with --by segment: folder for the audio of the kept segments, as FLAC
"""
OUTPUT = """
--out FILE.tsv!        manifest of what is kept; FILE.tsv.journal next to it has all texts
--rejected FILE.tsv    the rest, with both texts and a reason
--overwrite            redo everything
--references FILE.tsv  manifest with the true texts: print number and accuracy of the labels at
                       several thresholds
"""
LINES = """
--split SPLIT    only lines of this split
--source SOURCE  only lines of this source
--limit N        at most N, spread evenly
"""
SERVERS = """
--url-a URL_A  the same, for recogniser a alone
--url-b URL_B  the same, for recogniser b alone
--jobs N=4     files in flight
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "agree",
        run,
        help="label audio where two recognisers agree",
        usage="%(prog)s FILE... --a RECOGNISER --b RECOGNISER --out FILE.tsv [--max-cer X] ...",
        description="Transcribe recordings by two recognisers, and keep those whose texts agree\n"
        "as a manifest for training.",
        epilog=EXAMPLES,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="see below")
    fraction = number("a fraction from 0 to 1", lambda value: 0 <= value <= 1)
    add_flags(parser, FLAGS, a=recogniser, b=recogniser, max_cer=fraction, cut=Path)
    out = parser.add_argument_group("output")
    add_flags(out, OUTPUT, out=output, rejected=output, references=Path)
    add_flags(parser.add_argument_group("of manifests"), LINES, limit=positive)
    servers = parser.add_argument_group("servers")
    add_server_flags(servers)
    add_flags(servers, SERVERS, jobs=positive)


def run(args: argparse.Namespace) -> int:
    headers, _ = given_server(args)
    _check(args)
    from conch.bulk.sending import Sending
    from conch.pseudo_labels.journal import opened, transcribe
    from conch.pseudo_labels.labels import LabelFilter, sources_to_label
    from conch.scoring import COMPARING, missing

    if lacking := missing(*COMPARING, "fsspec"):
        raise BulkError(f"needs {' and '.join(lacking)}: {install('bench')}")
    wanted = {"split": args.split, "source": args.source}
    rule = LabelFilter(args.max_cer, args.text, args.cut)
    bar = _LabelBar(rule)
    sources = sources_to_label(args.files, wanted, args.limit, bar.left_out)
    settings = {"a": args.a, "b": args.b, "by": args.by, "whisper": args.whisper or "default"}
    settings["moonshine"] = args.moonshine
    with opened(args.out, settings, overwrite=args.overwrite) as journal:
        todo = [source for source in sources if journal.valid_entry(source) is None]
        with bar:
            bar.begin(len(sources), len(sources) - len(todo))
            if todo:
                with _recognisers(args) as both:
                    sending = Sending(headers, args.jobs)
                    asyncio.run(transcribe(todo, both, args.by, sending, journal, bar.done))
        entries = [(source, journal.entry(source)) for source in sources]
        _write(args, rule, entries)
    return 1 if any(entry.error for _, entry in entries) else 0


@contextmanager
def _recognisers(
    args: argparse.Namespace,
) -> Iterator[tuple["RecogniserSettings", "RecogniserSettings"]]:
    from conch.pseudo_labels.journal import RecogniserSettings

    url_a, url_b = args.url_a or args.url, args.url_b or args.url
    lacking = [options for options, url in ((args.a, url_a), (args.b, url_b)) if not url]
    given = None if lacking else url_a
    with server_url(given, lacking, weights_of(args)) as own:
        yield (
            RecogniserSettings("a", args.a, url_a or own),
            RecogniserSettings("b", args.b, url_b or own),
        )


def _check(args: argparse.Namespace) -> None:
    one = checked_options(args.a, (args.url, args.url_a, args.url_b))
    other = checked_options(args.b)
    if (weights := weights_of(args)) and args.url_a and args.url_b:
        raise UsageError(
            f"{KINDS[next(iter(weights))].flag} is for a server that this command starts; here "
            "both have a --url"
        )
    if one == other and (args.url_a or args.url) == (args.url_b or args.url):
        raise UsageError("--a and --b are the same recogniser, which always agrees with itself")
    if {one.channels, other.channels} != {"mix"}:
        raise UsageError("option 'channels' must be mix here: a label covers the whole file")
    if (args.by == "segment") != (args.cut is not None):
        raise UsageError(
            "--by segment and --cut DIR go together: a label needs the audio of its segment"
        )
    if args.by == "segment":
        for folder in map(Path, args.files):
            if folder.is_dir() and args.cut.resolve().is_relative_to(folder.resolve()):
                raise UsageError(
                    f"--cut {args.cut} is inside the input {folder}, which would include it"
                )
        if args.references is not None:
            raise UsageError("--references needs --by file: manifests have texts of whole files")
        for name in RecognitionOptions.__dataclass_fields__:
            is_of_segments = name == "vad" or name.startswith(OF_SEGMENTS)
            if is_of_segments and getattr(one, name) != getattr(other, name):
                raise UsageError(
                    f"with --by segment, option '{name}' must be the same in --a and --b"
                )
    if args.references is not None and not args.references.is_file():
        raise UsageError(f"--references {args.references}: no such file")
    written = [path.absolute() for path in (args.out, args.rejected) if path is not None]
    if len(set(written)) != len(written):
        raise UsageError("--out and --rejected need different files")
    read = {Path(name).absolute() for name in (*args.files, args.references or "")}
    for path in written:
        if path in read:
            raise UsageError(f"{path} would overwrite an input")
    if args.cut is not None:
        try:
            args.cut.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--cut {args.cut}: {error.strerror}") from None


def recogniser(text: str) -> dict[str, Any]:
    """Return the options of `wfst,rescore=true`; a decoder needs no `decoder=`.

    A part that is neither a decoder nor an option continues the value before it:
    `hotwords=uncas,poyser`.
    """
    from conch.cli.option_flags import parse_options

    pairs: list[str] = []
    for part in text.split(","):
        word = part.strip()
        if _OPTION.match(word):
            pairs.append(word)
        elif word in DECODERS or (word and not pairs):
            pairs.append(f"decoder={word}")
        elif word:
            pairs[-1] += f",{part}"
    try:
        return parse_options(pairs)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _write(
    args: argparse.Namespace, rule: "LabelFilter", entries: "list[tuple[Source, Entry]]"
) -> None:
    from conch.pseudo_labels.labels import write_labels, write_rejected

    answered = [(source, entry) for source, entry in entries if not entry.error]
    write_labels(args.out, rule, answered)
    if args.rejected:
        write_rejected(args.rejected, rule, entries)
    stretches = [item for _, entry in answered for item in entry.stretches]
    kept = [item for item in stretches if item.is_kept(rule.max_cer)]
    kept_s, all_s = sum(item.seconds for item in kept), sum(item.seconds for item in stretches)
    what = "files" if args.by == "file" else "segments"
    unit, unit_s = ("min", 60) if all_s < 3600 else ("h", 3600)
    print(
        f"conch: {len(kept)} of {len(stretches)} {what} kept, {kept_s / unit_s:.2f} of "
        f"{all_s / unit_s:.2f} {unit}, in {args.out}; {len(entries) - len(answered)} files failed",
        file=sys.stderr,
    )
    if args.references is not None:
        from conch.pseudo_labels.labels import judged, markdown

        print(markdown(judged(answered, args.references, args.text), args.max_cer), end="")


class _LabelBar(FileBar):
    def __init__(self, rule: "LabelFilter") -> None:
        from conch.bulk.inputs import left_out_text

        super().__init__("agree", "--rejected", left_out_text)
        self._rule = rule
        self._kept_s = 0.0

    def done(self, entry: "Entry") -> None:
        self._kept_s += sum(
            item.seconds for item in entry.stretches if item.is_kept(self._rule.max_cer)
        )
        if entry.error:
            self.problems("errors", [f"{entry.path}: {entry.error}"])
        self.update(1, sum(item.seconds for item in entry.stretches))

    def _rate(self) -> str:
        return f"{100 * self._kept_s / self.audio_s:.0f} % kept, " if self.audio_s else ""
