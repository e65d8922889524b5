"""`conch agree`: label recordings where two recognisers agree on the text."""

import argparse
import asyncio
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conch.cli.arguments import Subparsers, number, output, positive
from conch.cli.own_server import server_url
from conch.cli.server_flags import add_server_flags, add_whisper_flag, given_headers, given_whisper
from conch.cli.signals import interrupt_on_sigterm
from conch.client.address import Address
from conch.packaged import install
from conch.wire.errors import BulkError, OptionError, ServerError
from conch.wire.needs import components_of
from conch.wire.options import RecognitionOptions, words_of

if TYPE_CHECKING:
    from conch.bulk.inputs import Source
    from conch.cli.file_bar import FileBar
    from conch.pseudo_labels.journal import Entry, Journal
    from conch.pseudo_labels.labels import Rule

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


def add_parser(subparsers: Subparsers) -> None:
    """Add the command to those of `conch`."""
    parser = subparsers.add_parser(
        "agree",
        help="label audio where two recognisers agree",
        usage="%(prog)s FILE... --a RECOGNISER --b RECOGNISER --out FILE.tsv [--max-cer X] ...",
        description="Transcribe recordings by two recognisers, and keep those whose texts agree\n"
        "as a manifest for training.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="see below")
    for side in ("a", "b"):
        parser.add_argument(
            f"--{side}",
            required=True,
            metavar="RECOGNISER",
            help="decoder and options, as attention or wfst,rescore=true",
        )
    parser.add_argument(
        "--max-cer",
        type=number("a fraction from 0 to 1", lambda value: 0 <= value <= 1),
        default=0.1,
        metavar="X",
        help="keep texts whose character error rate, b against a, is at most X (default: 0.1)",
    )
    parser.add_argument(
        "--text",
        choices=("a", "b"),
        default="a",
        help="side whose text is the label (default: a)",
    )
    parser.add_argument(
        "--by",
        choices=("file", "segment"),
        default="file",
        help="label whole files, or the segments of the voice activity detection (default: file)",
    )
    parser.add_argument(
        "--cut",
        type=Path,
        metavar="DIR",
        help="with --by segment: folder for the audio of the kept segments, as FLAC",
    )
    out = parser.add_argument_group("output")
    out.add_argument(
        "--out",
        type=output,
        required=True,
        metavar="FILE.tsv",
        help="manifest of what is kept; FILE.tsv.journal next to it has all texts",
    )
    out.add_argument(
        "--rejected",
        type=output,
        metavar="FILE.tsv",
        help="the rest, with both texts and a reason",
    )
    out.add_argument("--overwrite", action="store_true", help="redo everything")
    out.add_argument(
        "--references",
        type=Path,
        metavar="FILE.tsv",
        help="manifest with the true texts: print number and accuracy of the labels at several "
        "thresholds",
    )
    lines = parser.add_argument_group("of manifests")
    lines.add_argument("--split", help="only lines of this split")
    lines.add_argument("--source", help="only lines of this source")
    lines.add_argument("--limit", type=positive, metavar="N", help="at most N, spread evenly")
    servers = parser.add_argument_group("servers")
    add_server_flags(servers, without="without it, one is started")
    add_whisper_flag(servers)
    for side in ("a", "b"):
        servers.add_argument(f"--url-{side}", help=f"the same, for recogniser {side} alone")
    servers.add_argument(
        "--jobs", type=positive, default=4, metavar="N", help="files in flight (default: 4)"
    )
    parser.set_defaults(run=run, usage_error=parser.error)


def run(args: argparse.Namespace) -> int:
    """Label and return the exit code.

    Raises:
        ConchError: the run cannot start or continue.
    """
    interrupt_on_sigterm()
    options = _checked(args)
    from conch.cli.file_bar import FileBar
    from conch.pseudo_labels.journal import opened
    from conch.pseudo_labels.labels import Rule, sources_to_label
    from conch.scoring import COMPARING, missing

    if lacking := missing(*COMPARING, "fsspec"):
        raise BulkError(f"needs {' and '.join(lacking)}: {install('bench')}")
    wanted = {"split": args.split, "source": args.source}
    sources = sources_to_label(args.files, wanted, args.limit)
    rule = Rule(args.max_cer, args.text, args.cut)
    asked = {**options, "by": args.by, "whisper": args.whisper or "default"}
    with opened(args.out, asked, overwrite=args.overwrite) as journal:
        todo = [source for source in sources if journal.found(source) is None]
        with FileBar("agree", "--rejected") as bar:
            bar.begin(len(sources), len(sources) - len(todo))
            _transcribe(args, options, todo, journal, _Shown(rule, bar))
        entries = [(source, journal.entry(source)) for source in sources]
        _write(args, rule, entries)
    return 1 if any(entry.error for _, entry in entries) else 0


def _transcribe(
    args: argparse.Namespace,
    options: dict[str, dict[str, Any]],
    sources: "Sequence[Source]",
    journal: "Journal",
    shown: "_Shown",
) -> None:
    """Journal both texts of each recording, or an error if a manifest cannot hold its name."""
    from conch.bulk.sending import Sending
    from conch.pseudo_labels.journal import Entry, stamp_of
    from conch.pseudo_labels.labels import check_name
    from conch.pseudo_labels.run import Recogniser, transcribe

    named = []
    for source in sources:
        try:
            check_name(source, args.out)
            named.append(source)
        except BulkError as error:
            entry = Entry(source.path, stamp_of(source), error=str(error))
            journal.append(entry)
            shown.done(entry)
    if not named:
        return
    with _servers(args, options) as urls:
        a, b = Recogniser("a", options["a"], urls[0]), Recogniser("b", options["b"], urls[1])
        sending = Sending(given_headers(args), args.jobs)
        asyncio.run(transcribe(named, (a, b), args.by, sending, journal, shown.done))


@contextmanager
def _servers(
    args: argparse.Namespace, options: dict[str, dict[str, Any]]
) -> Iterator[tuple[str, str]]:
    """Yield the server addresses of both recognisers; start a server for those without one."""
    given = {side: getattr(args, f"url_{side}") or args.url for side in ("a", "b")}
    lacking = [options[side] for side, url in given.items() if url is None]
    models = {name for sent in lacking for name in components_of(RecognitionOptions.parse(sent))}
    with ExitStack() as stack:
        if lacking:
            own = stack.enter_context(server_url(None, ["speech", *sorted(models)], args.whisper))
            given = {side: url or own for side, url in given.items()}
        yield given["a"], given["b"]


def _checked(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the options of both recognisers; a mistake ends the program with exit code 2."""
    usage_error: Callable[[str], None] = args.usage_error
    options: dict[str, dict[str, Any]] = {}
    for side in ("a", "b"):
        try:
            options[side] = recogniser(getattr(args, side))
        except OptionError as error:
            usage_error(f"argument --{side}: {error}")
    try:
        for url in filter(None, (args.url, args.url_a, args.url_b)):
            Address.parse(url)
    except ServerError as error:
        usage_error(str(error))
    given_headers(args)
    given_whisper(args)
    if args.whisper and args.url_a and args.url_b:
        usage_error("--whisper is for a server that this command starts; here both have a --url")
    if mistake := _mistake(args, options["a"], options["b"]):
        usage_error(mistake)
    if args.cut is not None:
        try:
            args.cut.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            usage_error(f"--cut {args.cut}: {error.strerror}")
    return options


def _mistake(args: argparse.Namespace, a: dict[str, Any], b: dict[str, Any]) -> str | None:
    """Return the mistake in the choice of options, None if there is none."""
    one, other = RecognitionOptions.parse(a), RecognitionOptions.parse(b)
    urls = [args.url_a or args.url, args.url_b or args.url]
    if one == other and urls[0] == urls[1]:
        return "--a and --b are the same recogniser, which always agrees with itself"
    if {one.channels, other.channels} != {"mix"}:
        return "option 'channels' must be mix here: a label covers the whole file"
    if (args.by == "segment") != (args.cut is not None):
        return "--by segment and --cut DIR go together: a label needs the audio of its segment"
    if args.cut is not None:
        for folder in map(Path, args.files):
            if folder.is_dir() and args.cut.resolve().is_relative_to(folder.resolve()):
                return f"--cut {args.cut} is inside the input {folder}, which would include it"
    if args.by == "segment":
        if args.references is not None:
            return "--references needs --by file: manifests have texts of whole files"
        for name in RecognitionOptions.__dataclass_fields__:
            is_of_segments = name == "vad" or name.startswith(OF_SEGMENTS)
            if is_of_segments and getattr(one, name) != getattr(other, name):
                return f"with --by segment, option '{name}' must be the same in --a and --b"
    if args.references is not None and not args.references.is_file():
        return f"--references {args.references}: no such file"
    written = [path.absolute() for path in (args.out, args.rejected) if path is not None]
    if len(set(written)) != len(written):
        return "--out and --rejected need different files"
    read = {Path(name).absolute() for name in (*args.files, args.references or "")}
    for path in written:
        if path in read:
            return f"{path} would overwrite an input"
    return None


def recogniser(text: str) -> dict[str, Any]:
    """Return the options of `wfst,rescore=true`; a decoder needs no `decoder=`.

    A part that is neither a decoder nor an option continues the value before it:
    `hotwords=uncas,poyser`.

    Raises:
        OptionError: a part is neither a decoder nor an option, or `RecognitionOptions` refuses it.
    """
    from conch.cli.option_pairs import parse_options

    pairs: list[str] = []
    for part in text.split(","):
        word = part.strip()
        if _OPTION.match(word):
            pairs.append(word)
        elif word in DECODERS or (word and not pairs):
            pairs.append(f"decoder={word}")
        elif word:
            pairs[-1] += f",{part}"
    return parse_options(pairs)


def _write(args: argparse.Namespace, rule: "Rule", entries: "list[tuple[Source, Entry]]") -> None:
    """Write the files, and print a summary of them."""
    from conch.pseudo_labels.labels import write_labels, write_rejected

    answered = [(source, entry) for source, entry in entries if not entry.error]
    write_labels(args.out, rule, answered)
    if args.rejected:
        write_rejected(args.rejected, rule, entries)
    stretches = [item for _, entry in answered for item in entry.stretches]
    kept = [item for item in stretches if rule.is_kept(item)]
    kept_s, all_s = sum(item.seconds for item in kept), sum(item.seconds for item in stretches)
    what = "files" if args.by == "file" else "segments"
    unit, unit_s = ("min", 60) if all_s < 3600 else ("h", 3600)
    print(
        f"conch: {len(kept)} of {len(stretches)} {what} kept, {kept_s / unit_s:.2f} of "
        f"{all_s / unit_s:.2f} {unit}, in {args.out}; {len(entries) - len(answered)} files failed",
        file=sys.stderr,
    )
    if args.references is not None:
        from conch.pseudo_labels.judged import judged, markdown

        print(markdown(judged(answered, args.references, args.text), args.max_cer), end="")


class _Shown:
    """Shows the entries of a run."""

    def __init__(self, rule: "Rule", bar: "FileBar") -> None:
        self._rule, self._bar = rule, bar
        self._audio_s = self._kept_s = 0.0

    def done(self, entry: "Entry") -> None:
        self._audio_s += sum(item.seconds for item in entry.stretches)
        self._kept_s += sum(item.seconds for item in entry.stretches if self._rule.is_kept(item))
        if entry.error:
            self._bar.problem("errors", f"{entry.path}: {entry.error}")
        kept = f"{100 * self._kept_s / self._audio_s:.0f} % kept, " if self._audio_s else ""
        figures = f"{self._audio_s / 3600:.2f} h, {kept}{self._bar.errors} failed"
        self._bar.update(1, figures)
