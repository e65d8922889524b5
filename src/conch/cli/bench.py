"""`conch bench`: measure a server's speed, accuracy and memory."""

import argparse
import json
import math
from pathlib import Path
from typing import Any

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
"""Highest rate of requests that one client sends, per second."""

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
FIND_LARGEST = """
--find-largest  then find the largest number of streams that the server keeps up with: p99 of the
                chunk latency is below the chunk's length
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
STREAMS = """
--chunk-ms N=640  milliseconds of a chunk
--seconds N=60    seconds of audio of a stream
--pause N=1.5     seconds of silence between the utterances of a stream
--warmup N=5      uncounted seconds of the same streams before each run
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
    seconds = number("seconds from 0", lambda seconds: 0 <= seconds < math.inf)
    add_flags(
        speakers.add_argument_group("input"), TURNS + OPTION, rttm=(Path, None), collar=seconds
    )
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
    add_counts(spoken, "--concurrency", "concurrent clients (default: 1,8)")
    add_rate(spoken)
    add_server(spoken)
    add_output(synthesis)


def add_streams(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Add the streams, their audio and the server; return the group of the input."""
    what = add_input(parser, LIMIT + OPTION + METRIC, limit=positive)
    how = parser.add_argument_group("how")
    add_counts(
        how, "--streams", "concurrent streams; several numbers make one run each (default: 8)"
    )
    warmup = number("seconds from 0", lambda seconds: 0 <= seconds < math.inf)
    pause = number("seconds above 0", lambda seconds: 0 < seconds < math.inf)
    add_flags(
        how, STREAMS + FIND_LARGEST, chunk_ms=positive, seconds=positive, pause=pause, warmup=warmup
    )
    add_server(how)
    return what


def presets(text: str) -> list[str]:
    """Return values of the option `accuracy` separated by commas."""
    from conch.cli.option_flags import parse_options

    names = text.split(",")
    for name in names:
        try:
            parse_options([f"accuracy={name}"])
        except OptionError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return names


def run_offline(args: argparse.Namespace) -> int:
    settings = server_benchmark_of(args)
    # Imported here, so that `conch --help` does not wait for numpy and the clients.
    from conch.bench import offline

    report = offline.run(
        offline.OfflineBenchmark(
            **settings,
            **offered_of(args),
            accuracy=args.accuracy,
            send=args.send,
        )
    )
    write_report(args, report, offline.markdown(report))
    return 1 if any(run.figures.errors == run.figures.utterances for run in report.runs) else 0


def live_benchmark_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a `conch.bench.live.LiveBenchmark`, from `add_streams`."""
    return {
        **server_benchmark_of(args, live=True),
        "streams": list(dict.fromkeys(args.streams or [8])),
        "chunk_ms": args.chunk_ms,
        "seconds": args.seconds,
        "pause_s": args.pause,
        "warmup_s": args.warmup,
        "find_largest": args.find_largest,
    }


def run_live(args: argparse.Namespace) -> int:
    settings = live_benchmark_of(args)
    from conch.bench import live

    benchmark = live.LiveBenchmark(**settings)
    report = live.run(benchmark)
    write_report(args, report, live.markdown(report))
    requested = report.runs[: len(benchmark.streams)]
    return 1 if any(run.errors == run.streams for run in requested) else 0


def run_speakers(args: argparse.Namespace) -> int:
    headers, weights = given_server(args)
    options = options_of(args)
    from conch.bench import speakers
    from conch.scoring import require

    require("scipy")
    report = speakers.run(
        speakers.SpeakersBenchmark(
            files=tuple(args.files),
            rttm=args.rttm,
            collar_s=args.collar,
            is_number_given=args.number_given,
            url=args.url,
            weights=weights,
            headers=headers,
            options=options,
        )
    )
    write_report(args, report, speakers.markdown(report))
    return 0


def run_synthesis(args: argparse.Namespace) -> int:
    headers, weights = given_server(args)
    from conch.bench import synthesis

    benchmark = synthesis.SynthesisBenchmark(
        **choice_of(args),
        url=args.url,
        headers=headers,
        weights=weights,
        concurrency=list(dict.fromkeys(args.concurrency or ([] if args.rate else [1, 8]))),
        rates=list(dict.fromkeys(args.rate or [])),
        options={"voice": args.voice} if args.voice else {},
        characters=args.characters,
        recognise=args.recognise,
    )
    report = synthesis.run(benchmark)
    write_report(args, report, synthesis.markdown(report))
    return 1 if any(run.errors == run.texts for run in report.runs) else 0


def add_input(
    parser: argparse.ArgumentParser, more: str = "", **values: Any
) -> "argparse._ArgumentGroup":
    """Add the manifest, its parts and more flags, as for `add_flags`; return their group."""
    what = parser.add_argument_group("input")
    add_flags(what, INPUT + more, manifest=Path, **values)
    return what


def choice_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a `conch.bench.samples.Choice`, from `add_input`."""
    names = ("manifest", "split", "source", "limit")
    return {name: getattr(args, name) for name in names if name in args}


def options_of(args: argparse.Namespace, *, live: bool = False) -> dict[str, Any]:
    # Imported here, so that `conch --help` does not wait for the client.
    from conch.cli.option_flags import parse_options

    try:
        return dict(parse_options(args.option, live=live))
    except OptionError as error:
        raise UsageError(str(error)) from None


def add_server(how: "argparse._ArgumentGroup") -> None:
    """Add the server to measure: its address and headers, or the weights of a new one."""
    add_flags(how, URL + WEIGHTS + HEADERS, **NO_WEIGHTS)


def server_benchmark_of(args: argparse.Namespace, *, live: bool = False) -> dict[str, Any]:
    """Return the fields of a `conch.bench.samples.ServerBenchmark`."""
    headers, weights = given_server(args)
    return {
        **choice_of(args),
        "url": args.url,
        "weights": weights,
        "headers": headers,
        "options": options_of(args, live=live),
        "metric": args.metric,
    }


def add_counts(how: "argparse._ArgumentGroup", flag: str, help: str) -> None:
    """Add a flag that takes whole numbers from 1, several times too."""
    how.add_argument(flag, type=counts, action="extend", metavar="N[,N…]", help=help)


def add_rate(how: "argparse._ArgumentGroup") -> None:
    how.add_argument(
        "--rate",
        type=rates,
        action="extend",
        metavar="R[,R…]",
        help="requests per second at random times (a Poisson process); latency counts from when "
        "each request was due; several numbers make one run each",
    )


def add_offered(how: "argparse._ArgumentGroup") -> None:
    """Add the loads, and the uncounted requests before each."""
    add_counts(
        how, "--concurrency", "concurrent clients; several numbers make one run each (default: 1)"
    )
    add_rate(how)
    add_flags(how, "--warmup N=8  uncounted requests before each run", warmup=count)


def add_output(parser: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Add the files of the report; return their group."""
    out = parser.add_argument_group("output, besides the table on stdout")
    add_flags(out, OUTPUT, json=output, markdown=output)
    return out


def write_report(args: argparse.Namespace, report: Any, table: str) -> None:
    """Print the table of a report and write the files of `add_output`."""
    print(table, end="")
    if args.json:
        from conch.bench.header import to_json

        text = json.dumps(to_json(report), indent=2, ensure_ascii=False, allow_nan=False)
        args.json.write_text(f"{text}\n", encoding="utf-8")
    if args.markdown:
        args.markdown.write_text(table, encoding="utf-8")


def offered_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of loads, from `add_offered`: one client if no load is named."""
    clients = args.concurrency or ([] if args.rate else [1])
    rates = list(dict.fromkeys(args.rate or []))
    return {"concurrency": list(dict.fromkeys(clients)), "rates": rates, "warmup": args.warmup}


def counts(text: str) -> list[int]:
    """Return numbers from 1, separated by commas."""
    return [positive(part) for part in text.split(",")]


def rates(text: str) -> list[float]:
    """Return rates separated by commas."""
    takes = f"a number above 0 and up to {MAX_RATE:g} requests a second"
    rate = number(takes, lambda value: 0 < value <= MAX_RATE)
    return [rate(part) for part in text.split(",")]


count = whole(0)
