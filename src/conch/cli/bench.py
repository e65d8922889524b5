"""`conch bench`: measure a server's speed, accuracy and memory."""

import argparse
import json
import math
from collections.abc import Iterable
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from conch.cli.arguments import (
    Subparsers,
    UsageError,
    add_command,
    add_flags,
    number,
    output,
    positive,
    whole,
)
from conch.cli.server import HEADERS, NO_WEIGHTS, WEIGHTS, given_server
from conch.wire.errors import OptionError

MAX_RATE = 1000.0
Settings = TypeVar("Settings")
Item = TypeVar("Item")

INPUT = """
--manifest FILE.tsv!  recordings and their texts
--split SPLIT         only utterances of this split
--source SOURCE       only utterances of this source
"""
LIMIT = """
--limit N  at most N utterances, spread evenly over the manifest; the same ones each time
"""
OPTION = "--option NAME=VALUE...  a request option\n"
METRIC = """
--metric {auto,wer,cer}=auto  count errors in words or in characters; auto: characters for zh, yue,
                              ja, th, lo, my and km, else words
"""
SEND = """
--send {waveform,file}=waveform  samples decoded beforehand, or files that the server decodes
"""
URL = """
--url URL  host:port, http:// or grpc:// of a running server, or of a gateway; without it, the
           benchmark starts one and measures its memory
"""
OUTPUT = """
--json FILE      every figure
--markdown FILE  the table
"""
OFFLINE = """
The manifest is a text file with a header line and columns separated by tabs: path and text,
optionally split, source and language. Paths are relative to the manifest. An utterance without a
text does not count for the error rate. The language decides whether words or characters are counted
and how texts are normalised. It is that of the manifest, else of --option language=…, else of the
answer, else English.

examples:
  conch bench offline --manifest speech/manifest.tsv --split dev --concurrency 1,8 \\
      --json offline.json --markdown offline.md
  conch bench offline --manifest speech/manifest.tsv --accuracy fast,balanced,best
  conch bench offline --manifest speech/manifest.tsv --split dev --whisper base
  conch bench offline --manifest calls.tsv --url grpc://gpu-box:8001 --option rescore=true \\
      --option nbest=5 --limit 100
  conch bench offline --manifest speech/manifest.tsv --split dev_zh --option language=zh

exit codes: 0 measured; 1 not measured, or every request of a run failed; 2 wrong usage
"""
LIVE = """
examples:
  conch bench live --manifest speech/manifest.tsv --split dev --streams 8,16,24,32
  conch bench live --manifest calls.tsv --streams 16 --find-largest
  conch bench live --manifest calls.tsv --option mode=streaming --streams 8 --json streaming.json

exit codes: 0 measured; 1 not measured, or every stream of a run failed; 2 wrong usage
"""
SPEAKERS = """
The turns that are right are in RTTM, the format of NIST: meeting.rttm beside meeting.wav, or what
--rttm names. A line of it: SPEAKER meeting 1 12.50 3.25 <NA> <NA> ann <NA> <NA>

examples:
  conch bench speakers meetings/*.wav
  conch bench speakers calls/*.wav --rttm calls.rttm --collar 0.25 --option decoder=none
  conch bench speakers meetings/*.wav --number-given --url 127.0.0.1:9000 --json speakers.json

exit codes: 0 measured; 1 not measured; 2 wrong usage
"""
TURNS = """
--rttm PATH      a file with the turns of all recordings, or a folder with one for each
--collar N=0     seconds on each side of a turn's edge that do not count
--number-given   send the number of speakers in place of auto
"""
SYNTHESIS = """
examples:
  conch bench synthesis --manifest speech/manifest.tsv --split dev --limit 100 --recognise
  conch bench synthesis --manifest speech/manifest.tsv --rate 1.5 --characters 600
  conch bench synthesis --manifest speech/manifest.tsv --url http://127.0.0.1:9000

exit codes: 0 measured; 1 not measured, or every text of a run failed; 2 wrong usage
"""
SPOKEN = """
--voice VOICE   who speaks (default: the server's)
--characters N  join texts until each has so many characters
--recognise     recognise the audio on the same server, and compare it with the texts
"""
ACCURACY = """
--accuracy PRESET[,PRESET…]  values of the option accuracy to compare, such as fast,balanced,best
"""
CLIENTS = """
--concurrency N[,N…]...  concurrent clients; several numbers make one run each (default: 1)
--warmup N=8             uncounted requests before each run
"""
SPEAKING_CLIENTS = "--concurrency N[,N…]...  concurrent clients (default: 1,8)"
RATE = """
--rate R[,R…]...  requests per second at random times (a Poisson process); latency counts from when
                  each request was due; several numbers make one run each
"""
STREAMS = """
--streams N[,N…]...  concurrent streams; several numbers make one run each (default: 8)
--chunk-ms N=640  milliseconds of a chunk
--seconds N=60    seconds of audio of a stream
--pause N=1.5     seconds of silence between the utterances of a stream
--warmup N=5      uncounted seconds of the same streams before each run
--find-largest    then find the largest number of streams that the server keeps up with: p99 of the
                  chunk latency is below the chunk's length
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "bench", help="measure a server", description="Measure a server and print a table."
    )
    benchmarks = parser.add_subparsers(required=True, metavar="BENCHMARK")
    offline = add_command(
        benchmarks,
        "offline",
        run_offline,
        help="whole recordings, in a closed loop or paced",
        description="Send whole recordings. In a closed loop, N clients each send the next "
        "recording when the last one is answered. A paced load sends N recordings per second, "
        "whether or not earlier ones are answered.",
        epilog=OFFLINE,
    )
    text = LIMIT + SEND + OPTION + METRIC + ACCURACY
    add_input(offline, text, limit=positive, accuracy=(presets, []))
    how = offline.add_argument_group("how")
    add_offered(how)
    add_server(how)
    add_output(offline)
    live = add_command(
        benchmarks,
        "live",
        run_live,
        help="live streams, paced in real time",
        description="Send live streams in real time. Report the latency of the answers, "
        "the error rate of the final texts, and how many streams the server keeps up with.",
        epilog=LIVE,
    )
    add_streams(live)
    add_output(live)
    speakers = add_command(
        benchmarks,
        "speakers",
        run_speakers,
        help="who speaks in recordings, against turns that are known",
        description="Send recordings one after the other. Report the diarization error rate and "
        "the number of speakers.",
        epilog=SPEAKERS,
    )
    speakers.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a recording")
    turns = speakers.add_argument_group("input")
    add_flags(turns, TURNS + OPTION, rttm=(Path, None), collar=from_0)
    add_server(speakers.add_argument_group("how"))
    add_output(speakers)
    synthesis = add_command(
        benchmarks,
        "synthesis",
        run_synthesis,
        help="texts as speech",
        description="Speak texts in a closed loop. Report the time to the first audio, the texts of"
        " which a player would run dry, and CPU time.",
        epilog=SYNTHESIS,
    )
    add_input(synthesis, LIMIT + SPOKEN, limit=positive, characters=(positive, 0))
    spoken = synthesis.add_argument_group("how")
    add_flags(spoken, SPEAKING_CLIENTS + RATE, concurrency=counts, rate=rates)
    add_server(spoken)
    add_output(synthesis)


def add_streams(parser: argparse.ArgumentParser) -> None:
    add_input(parser, LIMIT + OPTION + METRIC, limit=positive)
    how = parser.add_argument_group("how")
    pause = number("seconds above 0", lambda seconds: 0 < seconds < math.inf)
    types = {"streams": counts, "chunk_ms": positive, "seconds": positive}
    add_flags(how, STREAMS, pause=pause, warmup=from_0, **types)
    add_server(how)


def presets(text: str) -> list[str]:
    from conch.cli.option_flags import parse_options

    names = text.split(",")
    for name in names:
        try:
            parse_options([f"accuracy={name}"])
        except OptionError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return names


def run_offline(args: argparse.Namespace) -> int:
    served = served_by(args)
    from conch.bench import offline

    report = offline.run(settings_of(offline.OfflineBenchmark, args, **served, **loads_of(args, 1)))
    write_report(args, report, offline.markdown(report))
    return 1 if any(run.figures.errors == run.figures.utterances for run in report.runs) else 0


def run_live(args: argparse.Namespace) -> int:
    settings = streams_of(args)
    from conch.bench import live

    benchmark = settings_of(live.LiveBenchmark, args, **settings)
    report = live.run(benchmark)
    write_report(args, report, live.markdown(report))
    requested = report.runs[: len(benchmark.streams)]
    return 1 if any(run.errors == run.streams for run in requested) else 0


def run_speakers(args: argparse.Namespace) -> int:
    served = served_by(args)
    from conch.bench import speakers
    from conch.scoring import require

    require("scipy")
    more = {"collar_s": args.collar, "is_number_given": args.number_given}
    report = speakers.run(settings_of(speakers.SpeakersBenchmark, args, **served, **more))
    write_report(args, report, speakers.markdown(report))
    return 0


def run_synthesis(args: argparse.Namespace) -> int:
    headers, weights = given_server(args)
    from conch.bench import synthesis

    more = {"options": {"voice": args.voice} if args.voice else {}, **loads_of(args, 1, 8)}
    benchmark = settings_of(
        synthesis.SynthesisBenchmark, args, headers=headers, weights=weights, **more
    )
    report = synthesis.run(benchmark)
    write_report(args, report, synthesis.markdown(report))
    return 1 if any(run.errors == run.texts for run in report.runs) else 0


def settings_of(settings: type[Settings], args: argparse.Namespace, **more: Any) -> Settings:
    """Return the settings of a benchmark, from the arguments of the same names that are given."""
    names = {item.name for item in fields(settings)}  # type: ignore[arg-type]
    given = {name: value for name, value in vars(args).items() if name in names}
    return settings(**{name: value for name, value in given.items() if value is not None} | more)


def served_by(args: argparse.Namespace, *, live: bool = False) -> dict[str, Any]:
    """Return the fields of a `conch.bench.samples.ServerBenchmark` with names of their own."""
    headers, weights = given_server(args)
    return {"weights": weights, "headers": headers, "options": options_of(args, live=live)}


def streams_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a `conch.bench.live.LiveBenchmark` with names of their own."""
    own = {"pause_s": args.pause, "warmup_s": args.warmup}
    return {"streams": each_once(args.streams) or [8], **own, **served_by(args, live=True)}


def loads_of(args: argparse.Namespace, *clients: int) -> dict[str, Any]:
    """Return the loads that are named; without any, closed loops of so many clients."""
    named, paced = each_once(args.concurrency), each_once(args.rate)
    return {"concurrency": named or ([] if paced else [*clients]), "rates": paced}


def each_once(lists: Iterable[Iterable[Item]]) -> list[Item]:
    return list(dict.fromkeys(chain.from_iterable(lists)))


def add_input(parser: argparse.ArgumentParser, more: str = "", **values: Any) -> None:
    add_flags(parser.add_argument_group("input"), INPUT + more, manifest=Path, **values)


def options_of(args: argparse.Namespace, *, live: bool = False) -> dict[str, Any]:
    from conch.cli.option_flags import parse_options

    try:
        return dict(parse_options(args.option, live=live))
    except OptionError as error:
        raise UsageError(str(error)) from None


def add_server(how: "argparse._ArgumentGroup") -> None:
    add_flags(how, URL + WEIGHTS + HEADERS, **NO_WEIGHTS)


def add_offered(how: "argparse._ArgumentGroup") -> None:
    add_flags(how, CLIENTS + RATE, concurrency=counts, rate=rates, warmup=count)


def add_output(parser: argparse.ArgumentParser) -> None:
    out = parser.add_argument_group("output, besides the table on stdout")
    add_flags(out, OUTPUT, json=output, markdown=output)


def write_report(args: argparse.Namespace, report: Any, table: str) -> None:
    print(table, end="")
    if args.json:
        from conch.bench.header import to_json

        text = json.dumps(to_json(report), indent=2, ensure_ascii=False, allow_nan=False)
        args.json.write_text(f"{text}\n", encoding="utf-8")
    if args.markdown:
        args.markdown.write_text(table, encoding="utf-8")


def counts(text: str) -> list[int]:
    return [positive(part) for part in text.split(",")]


def rates(text: str) -> list[float]:
    takes = f"a number above 0 and up to {MAX_RATE:g} requests a second"
    rate = number(takes, lambda value: 0 < value <= MAX_RATE)
    return [rate(part) for part in text.split(",")]


count = whole(0)
from_0 = number("seconds from 0", lambda seconds: 0 <= seconds < math.inf)
