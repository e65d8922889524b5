"""`python -m lab gpu-check`: a server's texts down every path, compared with those of another."""

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conch.client import Client
from conch.component.waveform import SAMPLE_RATE
from conch.launcher import ServerConfig, TritonServer
from conch.launcher.repositories import shipped_repositories
from conch.scoring.error_rates import word_error_rate
from conch.scoring.manifest import Utterance, read_manifest
from conch.scoring.tables import number, percent, table
from conch.wire.errors import ConchError
from lab.command import Command
from lab.waveforms import waveform_of

MANIFEST = Path(__file__).parents[1] / "tests" / "data" / "manifest.tsv"
GRAPH = {"decoder": "wfst"}
PATHS: Mapping[str, Mapping[str, Any]] = {
    "attention": {},
    "attention, rescored by n-gram": {"rescore": True},
    "ctc greedy": {"decoder": "ctc", "beam_size": 1},
    "ctc beam": {"decoder": "ctc"},
    "ctc beam, n-gram fusion": {"decoder": "ctc", "lm_fusion": True},
    "graph": GRAPH,
    "graph, rescored by attention": {**GRAPH, "attention_rescore": True, "beam_size": 8},
}
LIVE_PATHS: Mapping[str, Mapping[str, Any]] = {
    "live": {},
    "live, graph": GRAPH,
    "live, two passes": {"mode": "two_pass"},
}
CHUNK = SAMPLE_RATE * 640 // 1000


def transcribed(client: Client, utterance: Utterance, options: Mapping[str, Any]) -> str:
    return client.transcribe(utterance.path, **options).text


def lived(client: Client, utterance: Utterance, options: Mapping[str, Any]) -> str:
    """Return the text of a recording that is sent as a live stream."""
    waveform = waveform_of(utterance.path)
    last = (len(waveform) - 1) // CHUNK * CHUNK
    with client.live(sample_rate=SAMPLE_RATE, **options) as stream:
        for start in range(0, last, CHUNK):
            stream.send(waveform[start : start + CHUNK])
        return stream.finish(waveform[last:]).text


@contextmanager
def served(url: str | None, model_config: str) -> Iterator[str]:
    """Yield the address of a running server, or of one that is started."""
    if url:
        yield url
        return
    config = ServerConfig(
        model_repositories=shipped_repositories(),
        model_config=model_config,
        startup_timeout_s=300,
        log_level="warning",
    )
    with TritonServer(config) as server:
        yield server.http_url


def run_command(args: argparse.Namespace) -> int:
    utterances = read_manifest(args.manifest)
    reference = json.loads(args.reference.read_text()) if args.reference else {}
    texts: dict[str, dict[str, str]] = {}
    rows = []
    with served(args.url, args.model_config) as url, Client(url, timeout_s=120) as client:
        for path, options in {**PATHS, **LIVE_PATHS}.items():
            say = lived if path in LIVE_PATHS else transcribed
            begun = time.perf_counter()
            by_file = texts[path] = {}
            for utterance in utterances:
                try:
                    by_file[utterance.path.name] = say(client, utterance, options)
                except ConchError as error:
                    print(f"{path}, {utterance.path.name}: {error}")
            seconds = time.perf_counter() - begun
            differing = [
                name
                for name, text in by_file.items()
                if text != reference.get(path, {}).get(name, text)
            ]
            for name in differing:
                print(f"{path}, {name}: {reference[path][name]!r} became {by_file[name]!r}")
            wer = word_error_rate(
                [item.text for item in utterances],
                [by_file.get(item.path.name, "") for item in utterances],
            )
            failed = len(utterances) - len(by_file)
            rows.append([path, number(seconds, 2), percent(wer), str(len(differing)), str(failed)])
    args.out.write_text(json.dumps(texts, indent=1))
    print(table(["path", "seconds", "WER %", "differ", "failed"], rows))
    return 0


COMMAND = Command(
    run=run_command,
    description="Send recordings down every path, print a row for each, and write the texts. "
    "`conch bench offline` and `conch bench live` measure how much a server carries.",
    epilog="""
examples:
  python -m lab gpu-check --model-config '' --out cpu.json
  python -m lab gpu-check --model-config gpu --out gpu.json --reference cpu.json
""",
    flags="""
--manifest FILE          recordings (default: the test data)
--model-config NAME=gpu  of the server that is started
--url URL                of a running server; one is started without
--out FILE!              for the texts
--reference FILE         the texts of another run
""",
    types={"manifest": (Path, MANIFEST)},
    has_report=False,
)
