"""Check a server on a GPU: its texts against the CPU's, its throughput and its latency.

    python -m lab.gpu_check --out cpu --model-config '' --steps texts
    python -m lab.gpu_check --out gpu --reference cpu/texts.json --manifest dev/manifest.tsv

The steps, in this order unless --steps names others:

    texts      the recordings of tests/data down every path, beside the texts of --reference
    offline    whole recordings in a closed loop of 1 to 256 clients: RTFx by path
    live_fast  live streams, each sending its next chunk when the last one is answered
    live       live streams in real time: latency of every chunk, and of each stream's last one
    baseline   faster-whisper on the same device, with the same weights and no server

Each step writes OUT/STEP.json after every measurement. A measurement that fails or times out is
reported, and the next one follows. After --budget-s the remaining ones are named and left out.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from conch.bench.live import LiveBenchmark, all_streams, scripts, warm_up
from conch.bench.live_figures import Script, StreamRecord, figures
from conch.bench.memory import cpu_by_process, cpu_since
from conch.bench.samples import load_samples
from conch.bench.speed import latency_ms, rtfx
from conch.client import AsyncClient, Client
from conch.families.whisper.config import model_folder
from conch.launcher import ServerConfig, TritonServer
from conch.launcher.repositories import shipped_repositories
from conch.scoring.error_rates import ENGLISH_WORDS, word_error_rate
from conch.scoring.manifest import Utterance, read_manifest, select
from conch.scoring.tables import number, percent, table
from conch.wire.errors import ConchError
from lab.manifest.writing import write_manifest
from lab.waveforms import waveform_of

DATA = Path(__file__).parents[1] / "tests" / "data"
GRAPH = {"decoder": "wfst"}
OFFLINE: Mapping[str, Mapping[str, Any]] = {
    "attention": {},
    "ctc greedy": {"decoder": "ctc", "beam_size": 1},
    "graph": GRAPH,
}
"""Paths whose throughput is measured."""
PATHS: Mapping[str, Mapping[str, Any]] = {
    **OFFLINE,
    "ctc beam": {"decoder": "ctc"},
    "ctc beam, n-gram fusion": {"decoder": "ctc", "lm_fusion": True},
    "graph, rescored by attention": {**GRAPH, "attention_rescore": True, "beam_size": 8},
    "attention, rescored by n-gram": {"rescore": True},
}
"""Paths of whole recordings whose texts are compared."""
LIVE_PATHS: Mapping[str, Mapping[str, Any]] = {
    "live": {},
    "live, graph": GRAPH,
    "live, two passes": {"mode": "two_pass"},
}
"""Paths of live streams whose texts are compared."""
RATE = 16_000
CHUNK_MS = 640
REQUEST_TIMEOUT_S = 120.0
MEASUREMENT_S = 150.0
"""Longest time of a measurement."""
START_IN_S = 6.0
"""From the start of the load's processes to the start of their streams."""
WARMUP_S = 3.0
"""Seconds of uncounted live streams in real time before the others."""
FAST_AUDIO_S = 6000.0
"""Audio of all streams together, sent as fast as answered; each has at least 5 s."""
TRAILING_S = 30.0
"""Seconds that streams in real time may end late before they are given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Settings of the check."""

    out: Path
    manifest: Path
    """Manifest of the recordings, all of one sample rate; texts uses tests/data instead."""
    urls: tuple[str, ...]
    """HTTP addresses of the servers, which share clients and streams."""
    deadline: float
    """End of all steps, on `time.perf_counter`."""
    reference: Path | None
    clients: tuple[int, ...]
    streams: tuple[int, ...]
    stream_s: float
    """Audio of each live stream."""
    processes: int
    """Processes that send the live streams: each sends about 300 in real time."""
    device: str
    """Device of the step without a server: cpu or cuda."""
    whisper: str
    """A CTranslate2 Whisper folder for faster-whisper; empty is the shipped one."""

    def left_s(self, at_most: float = MEASUREMENT_S) -> float:
        """Return the seconds that a measurement may take.

        Raises:
            TimeoutError: too few seconds are left for a measurement.
        """
        left = self.deadline - time.perf_counter()
        if left < 5:
            raise TimeoutError("the budget is spent")
        return min(left, at_most)


Report = list[dict[str, Any]]
"""Report of a step: one mapping for each measurement."""
Measurements = Mapping[str, Callable[[], dict[str, Any]]]
"""Measurements of a step, by name."""


def texts(plan: Plan) -> Measurements:
    """Compare the texts of each path with those of the reference."""
    known: dict[str, dict[str, str]] = {}
    if plan.reference:
        known = {item["path"]: item["texts"] for item in json.loads(plan.reference.read_text())}
    return {
        path: partial(_compared, plan, path, options, known.get(path, {}))
        for path, options in {**PATHS, **LIVE_PATHS}.items()
    }


def _compared(
    plan: Plan, path: str, options: Mapping[str, Any], other: Mapping[str, str]
) -> dict[str, Any]:
    utterances = read_manifest(DATA / "manifest.tsv")
    begun, found, errors = time.perf_counter(), {}, {}
    say = _lived if path in LIVE_PATHS else _transcribed
    with Client(plan.urls[0], timeout_s=plan.left_s(REQUEST_TIMEOUT_S)) as client:
        for utterance in utterances:
            try:
                found[utterance.path.name] = say(client, utterance, options)
            except ConchError as error:
                errors[utterance.path.name] = str(error)
    return {
        "path": path,
        "seconds": round(time.perf_counter() - begun, 2),
        "wer": word_error_rate(
            [item.text for item in utterances],
            [found.get(item.path.name, "") for item in utterances],
        ),
        "compared": len(found.keys() & other.keys()),
        "differ": {
            name: {"reference": other[name], "found": text}
            for name, text in found.items()
            if name in other and text != other[name]
        },
        "errors": errors,
        "texts": found,
    }


def _transcribed(client: Client, utterance: Utterance, options: Mapping[str, Any]) -> str:
    text: str = client.transcribe(str(utterance.path), **options).text
    return text


def _lived(client: Client, utterance: Utterance, options: Mapping[str, Any]) -> str:
    waveform = waveform_of(utterance.path)
    block = RATE * CHUNK_MS // 1000
    with client.live(sample_rate=RATE, **options) as stream:
        for start in range(0, len(waveform) - block, block):
            stream.send(waveform[start : start + block])
        last = (len(waveform) - 1) // block * block
        text: str = stream.finish(waveform[last:]).text
        return text


def offline(plan: Plan) -> Measurements:
    """Measure each path with each number of clients."""
    return {
        f"{path}, {clients} clients": partial(_closed_loop, plan, path, clients)
        for path in OFFLINE
        for clients in plan.clients
    }


def _closed_loop(plan: Plan, path: str, clients: int) -> dict[str, Any]:
    shares = [share for share in dealt(clients, len(plan.urls)) if share]
    # One client is slow, so few requests measure it. With more clients, filling and emptying the
    # loop must be a small part of the run.
    requests = max(40, min(20 * shares[0], 320), 4 * shares[0])
    manifest = plan.out / ".offline.tsv"
    recordings = cycle(select(read_manifest(plan.manifest), limit=requests))
    write_manifest(manifest, islice(recordings, requests))
    timeout_s, before = plan.left_s(), cpu_by_process(os.getpid())

    def measured(url: str, share: int) -> dict[str, Any]:
        options = [f"--option={name}={_word(value)}" for name, value in OFFLINE[path].items()]
        load = [f"--concurrency={share}", f"--warmup={min(2 * share, 64)}"]
        where = [f"--manifest={manifest}", f"--url={url}"]
        command = ["-m", "conch.cli", "bench", "offline"]
        return _report(plan, timeout_s, [*command, *where, *load, *options])

    with ThreadPoolExecutor(len(shares)) as pool:
        runs = [report["runs"][0] for report in pool.map(measured, plan.urls, shares)]
    messages = [item["message"] for run in runs for item in run["error_messages"]]
    return {
        "path": path,
        "clients": clients,
        "servers": len(shares),
        "rtfx": round(sum(run["rtfx"] or 0 for run in runs), 1),
        "wer": runs[0]["wer"],
        "latency_ms": runs[0]["latency_ms"],
        "requests": sum(run["utterances"] for run in runs),
        "errors": sum(run["errors"] for run in runs),
        "error_messages": messages[:3],
        "stages": runs[0]["stages"],
        "wall_s": [run["wall_s"] for run in runs],
        "cpu_s_by_process": cpu_since(os.getpid(), before),
    }


def live(plan: Plan) -> Measurements:
    """Measure each number of streams in real time."""
    return {f"{count} streams": partial(_streamed, plan, count, True) for count in plan.streams}


def live_fast(plan: Plan) -> Measurements:
    """Measure each number of streams sent as fast as they are answered."""
    return {f"{count} streams": partial(_streamed, plan, count, False) for count in plan.streams}


def _streamed(plan: Plan, streams: int, paced: bool) -> dict[str, Any]:
    stream_s = plan.stream_s
    if not paced:
        stream_s = max(5.0, min(stream_s, FAST_AUDIO_S / streams))
    least_s = START_IN_S + WARMUP_S + stream_s if paced else START_IN_S
    timeout_s = plan.left_s(max(MEASUREMENT_S, least_s + TRAILING_S))
    if timeout_s < least_s:
        raise TimeoutError(f"{timeout_s:.0f} s are left, {streams} streams take {least_s:.0f}")
    # Equal numbers for each server.
    processes = min(-(-plan.processes // len(plan.urls)) * len(plan.urls), streams)
    before = cpu_by_process(os.getpid())
    start_at = time.time() + START_IN_S
    loads = [
        Load(
            url=plan.urls[place % len(plan.urls)],
            manifest=plan.manifest,
            streams=share,
            place=place,
            stream_s=stream_s,
            paced=paced,
            start_at=start_at,
        )
        for place, share in enumerate(dealt(streams, processes))
    ]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        # The end of the block ends the processes, also those that wait for a server.
        parts = pool.map_async(sent, loads, chunksize=1).get(timeout_s)
        used = cpu_since(os.getpid(), before)
    records = [item for part in parts for item in part.records]
    wall_s = max(part.ended for part in parts) - min(part.begun for part in parts)
    report: dict[str, Any] = asdict(figures(records, CHUNK_MS, ENGLISH_WORDS, sum(used.values())))
    ends = [value for item in records for value in item.end_s]
    report |= {
        "load": "real time" if paced else "as fast as answered",
        "servers": len(plan.urls),
        "processes": processes,
        "last_chunk_ms": latency_ms(ends),
        "late_by_s": round(max(part.begun for part in parts) - start_at, 2),
        "wall_s": round(wall_s, 2),
        "audio_s": round(sum(part.audio_s for part in parts), 1),
        "rtfx": rtfx(sum(part.audio_s for part in parts), wall_s),
        "cpu_s_by_process": used,
        "error_messages": report["error_messages"][:3],
    }
    if not paced:
        # Nothing is spoken in real time, so these times mean nothing.
        report |= {"keeps_up": None, "first_partial_ms": None, "final_ms": None}
    return report


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The streams of one process."""

    url: str
    manifest: Path
    streams: int
    place: int
    """Index of the process; each begins with other utterances."""
    stream_s: float
    paced: bool
    start_at: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The outcomes of a process's streams."""

    records: list[StreamRecord]
    """Of the streams, without their audio."""
    audio_s: float
    begun: float
    """Seconds since the epoch, after the uncounted streams."""
    ended: float


def sent(load: Load) -> Sent:
    """Send the streams of a `Load`, in a separate process."""
    samples = load_samples(read_manifest(load.manifest), "waveform")
    turn = 37 * load.place % len(samples)
    benchmark = LiveBenchmark(
        manifest=load.manifest,
        chunk_ms=CHUNK_MS,
        seconds=0.6 * load.stream_s,
        warmup_s=WARMUP_S,
        options=GRAPH,
    )
    said = scripts(samples[turn:] + samples[:turn], load.streams, benchmark)
    said = [_cut(script, load.stream_s) for script in said]
    time.sleep(max(0.0, load.start_at - time.time()))
    if load.paced:
        warm_up(load.url, said, benchmark)
    begun = time.time()
    streams = (
        all_streams(load.url, said, benchmark, StreamRecord)
        if load.paced
        else _unpaced(load.url, said, benchmark)
    )
    records = asyncio.run(streams)
    ended = time.time()
    audio_s = sum(len(item.waveform) / item.sample_rate for item in said)
    silence = np.zeros(0, np.float32)
    for item in records:
        item.script = replace(item.script, waveform=silence)
    return Sent(records, audio_s, begun, ended)


def _cut(script: Script, seconds: float) -> Script:
    """Return a script of at most `seconds`; a cut one has no reference."""
    samples = round(seconds * script.sample_rate)
    if len(script.waveform) <= samples:
        return script
    return replace(script, waveform=script.waveform[:samples], text="")


async def _unpaced(
    url: str, said: Sequence[Script], benchmark: LiveBenchmark
) -> list[StreamRecord]:
    async with AsyncClient(url, connections=2 * len(said)) as client:

        async def one(script: Script) -> StreamRecord:
            record = StreamRecord(script, benchmark.has_second_pass)
            block = script.sample_rate * benchmark.chunk_ms // 1000
            try:
                async with client.live(
                    sample_rate=script.sample_rate, **benchmark.options
                ) as stream:
                    for start in range(0, len(script.waveform), block):
                        chunk = script.waveform[start : start + block]
                        is_last = start + block >= len(script.waveform)
                        asked = time.perf_counter()
                        answer = await (stream.finish(chunk) if is_last else stream.send(chunk))
                        record.chunk_s.append(time.perf_counter() - asked)
                        if is_last:
                            record.end_s.append(record.chunk_s[-1])
                        record.text = answer.text
            except ConchError as error:
                record.error = str(error) or type(error).__name__
            return record

        return await asyncio.gather(*map(one, said))


def baseline(plan: Plan) -> Measurements:
    """Measure faster-whisper, one recording after the other and in batches."""
    return {f"batches of {size}": partial(_faster_whisper, plan, size) for size in (1, 16)}


def _faster_whisper(plan: Plan, batch_size: int) -> dict[str, Any]:
    command = [__file__, f"--whisper-child={batch_size}", f"--manifest={plan.manifest}"]
    command += [f"--device={plan.device}", f"--whisper={plan.whisper}"]
    found: dict[str, Any] = json.loads(_ran(command, plan.left_s()).splitlines()[-1])
    return found


def whisper_child(batch_size: int, manifest: Path, device: str, whisper: str) -> dict[str, Any]:
    """Return the figures of faster-whisper; a batch of 1 is its unbatched mode."""
    from faster_whisper import BatchedInferencePipeline, WhisperModel

    utterances = select(read_manifest(manifest), limit=60)
    recordings = [waveform_of(item.path) for item in utterances]
    compute_type = "float16" if device == "cuda" else "int8_float32"
    model = WhisperModel(str(model_folder(whisper)), device=device, compute_type=compute_type)
    pipeline: Any = BatchedInferencePipeline(model) if batch_size > 1 else model
    how = {"beam_size": 5, "language": "en", "vad_filter": True}
    if batch_size > 1:
        how["batch_size"] = batch_size

    def transcribed(waveform: Any) -> str:
        return " ".join(item.text.strip() for item in pipeline.transcribe(waveform, **how)[0])

    # Batches need long audio, so join all recordings to one.
    sendings = [np.concatenate(recordings)] if batch_size > 1 else recordings
    transcribed(recordings[0])
    begun = time.perf_counter()
    found = [transcribed(item) for item in sendings]
    wall_s = time.perf_counter() - begun
    said = [item.text for item in utterances]
    return {
        "batch_size": batch_size,
        "device": device,
        "rtfx": rtfx(sum(map(len, recordings)) / RATE, wall_s),
        "wall_s": round(wall_s, 2),
        "wer": word_error_rate([" ".join(said)] if batch_size > 1 else said, found),
    }


STEPS: Mapping[str, Callable[[Plan], Measurements]] = {
    "texts": texts,
    "offline": offline,
    "live_fast": live_fast,
    # Last of the steps with servers: streams that are given up leave work behind.
    "live": live,
    "baseline": baseline,
}
SERVERLESS = {"baseline"}


def dealt(count: int, among: int) -> list[int]:
    """Return equal shares of `count` among `among`, the larger ones first."""
    return [count // among + (place < count % among) for place in range(among)]


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _report(plan: Plan, timeout_s: float, arguments: Sequence[str]) -> dict[str, Any]:
    with TemporaryDirectory(dir=plan.out) as folder:
        file = Path(folder, "report.json")
        _ran([*arguments, f"--json={file}"], timeout_s)
        report: dict[str, Any] = json.loads(file.read_text())
        return report


def _ran(arguments: Sequence[str], timeout_s: float) -> str:
    """Run a Python program and return what it prints.

    Raises:
        RuntimeError: it failed; the message has the end of its output.
        TimeoutError: it took longer than `timeout_s`; it is killed with its children.
    """
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, errors = process.communicate(timeout=timeout_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimeoutError(f"{' '.join(arguments)}: over {timeout_s:.0f} s") from None
            raise
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: status {process.returncode}\n{errors[-3000:]}")
    return out


def summary(step: str, report: Report) -> str:
    """Return a step's figures as a table."""
    if step == "texts":
        rows = [
            [
                item["path"],
                percent(item["wer"]),
                str(item["compared"]),
                str(len(item["differ"])),
                str(len(item["errors"])),
            ]
            for item in report
        ]
        return table(["path", "WER %", "compared", "differ", "errors"], rows)
    if step == "offline":
        rows = [
            [
                item["path"],
                str(item["clients"]),
                number(item["rtfx"]),
                *(number(item["latency_ms"][key], 0) for key in ("p50", "p95", "p99")),
                percent(item["wer"]),
                str(item["errors"]),
            ]
            for item in report
        ]
        columns = ["path", "clients", "RTFx", "p50 ms", "p95 ms", "p99 ms", "WER %", "errors"]
        return table(columns, rows)
    if step in ("live", "live_fast"):
        keys = ("p90", "p95", "p99", "mean")
        rows = [
            [
                str(item["streams"]),
                {True: "yes", False: "no", None: "-"}[item["keeps_up"]],
                number(item["rtfx"]),
                *(number(item["chunk_latency_ms"][key], 0) for key in keys),
                *(number(item["last_chunk_ms"][key], 0) for key in keys),
                str(item["errors"]),
            ]
            for item in report
        ]
        columns = ["streams", "keeps up", "RTFx", *(f"chunk {key} ms" for key in keys)]
        return table([*columns, *(f"last {key} ms" for key in keys), "errors"], rows)
    rows = [
        [str(item["batch_size"]), item["device"], number(item["rtfx"]), percent(item["wer"])]
        for item in report
    ]
    return table(["faster-whisper, batch", "device", "RTFx", "WER %"], rows)


def run_step(step: str, plan: Plan) -> list[str]:
    """Take every measurement of a step; return the names of those that failed."""
    report: Report = []
    failed: list[str] = []
    print(f"\n=== {step}", flush=True)
    try:
        measurements = STEPS[step](plan)
    except Exception:
        traceback.print_exc(file=sys.stdout)
        return [step]
    for name, measure in measurements.items():
        begun = time.perf_counter()
        try:
            plan.left_s()
            report.append(measure())
        except Exception as error:  # any error: the next measurement still counts
            failed.append(f"{step}: {name}")
            if isinstance(error, TimeoutError | multiprocessing.TimeoutError):
                print(f"{name}: out of time: {error}", flush=True)
            else:
                traceback.print_exc(file=sys.stdout)
        else:
            (plan.out / f"{step}.json").write_text(json.dumps(report, indent=1))
        print(f"{name}: {time.perf_counter() - begun:.1f} s", flush=True)
    if report:
        (plan.out / f"{step}.md").write_text(summary(step, report) + "\n")
        print(summary(step, report), flush=True)
    return failed


@contextmanager
def servers(args: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    """Yield the HTTP addresses of the servers, running ones or new ones."""
    if args.url:
        yield tuple(args.url)
        return
    repositories = args.model_repository or shipped_repositories()
    with ExitStack() as stack:
        found = []
        for _ in range(args.servers):
            begun = time.perf_counter()
            config = ServerConfig(
                model_repositories=repositories,
                model_config=args.model_config,
                startup_timeout_s=args.startup_timeout,
                stop_timeout_s=5,
                log_level="warning",
            )
            server = stack.enter_context(TritonServer(config))
            # No request is in flight at the end, and unloading takes seconds.
            stack.callback(server.kill)
            print(f"server ready after {time.perf_counter() - begun:.1f} s", flush=True)
            found.append(server.http_url)
        yield tuple(found)


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        epilog="\n".join((__doc__ or "").splitlines()[2:]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("gpu-check"), help="folder of the reports")
    parser.add_argument("--manifest", type=Path, default=DATA / "manifest.tsv")
    parser.add_argument("--steps", default=",".join(STEPS), help="default: %(default)s")
    parser.add_argument("--model-config", default="gpu", help="default: %(default)s")
    parser.add_argument("--model-repository", action="append", metavar="FOLDER")
    parser.add_argument("--servers", type=int, default=1, help="to start (default: 1)")
    parser.add_argument("--url", action="append", help="host:port (HTTP) of a running server")
    parser.add_argument("--startup-timeout", type=float, default=300.0, metavar="SECONDS")
    parser.add_argument("--reference", type=Path, metavar="TEXTS.json", help="of another run")
    parser.add_argument("--clients", type=_counts, default=_counts("1,4,16,64,256"))
    parser.add_argument("--streams", type=_counts, default=_counts("100,500,1000,2000"))
    parser.add_argument("--stream-s", type=float, default=20.0, help="audio of a live stream")
    parser.add_argument("--processes", type=int, default=4, help="that send the live streams")
    parser.add_argument("--device", default="cuda", help="of the baseline: cpu or cuda")
    parser.add_argument("--whisper", default="", metavar="FOLDER", help="of the baseline")
    parser.add_argument("--budget-s", type=float, default=540.0, help="for everything")
    parser.add_argument("--whisper-child", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    args.steps = [name for name in args.steps.split(",") if name]
    if unknown := set(args.steps) - set(STEPS):
        parser.error(f"--steps: no {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}")
    return args


def _counts(text: str) -> tuple[int, ...]:
    return tuple(int(item) for item in text.split(","))


def main() -> int:
    """Measure, and return the number of failed measurements."""
    args = parsed()
    if args.whisper_child is not None:
        found = whisper_child(args.whisper_child, args.manifest, args.device, args.whisper)
        print(json.dumps(found))
        return 0
    deadline = time.perf_counter() + args.budget_s
    args.out.mkdir(parents=True, exist_ok=True)
    plan = Plan(
        out=args.out,
        manifest=args.manifest.resolve(),
        urls=(),
        deadline=deadline,
        reference=args.reference,
        clients=args.clients,
        streams=args.streams,
        stream_s=args.stream_s,
        processes=args.processes,
        device=args.device,
        whisper=args.whisper,
    )
    (args.out / "plan.json").write_text(json.dumps(asdict(plan), default=str, indent=1))
    served = [step for step in args.steps if step not in SERVERLESS]
    failed = []
    if served:
        try:
            with servers(args) as urls:
                for step in served:
                    failed += run_step(step, replace(plan, urls=urls))
        except ConchError:
            traceback.print_exc(file=sys.stdout)
            failed += served
    # After the servers: these need the device alone.
    for step in args.steps:
        if step in SERVERLESS:
            failed += run_step(step, plan)
    print(f"\ndone; failed: {'; '.join(failed) or 'nothing'}", flush=True)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
