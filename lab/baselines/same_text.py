"""`python -m lab same-text`: what a folder writes in Conch and in its authors' runtime."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from conch.catalogue.models import detect
from conch.component import SAMPLE_RATE, FloatArray, Outputs
from conch.scoring.error_rates import table
from conch.scoring.manifest import spread
from conch.wire.errors import BenchError
from lab.alignment import rates_by_source
from lab.baselines.components import MODELS, live, recorded, text_of, words_of
from lab.baselines.folder_peers import PeerResult, peer_of
from lab.command import Command
from lab.training.ctc.data import utterances_of
from lab.waveforms import waveform_of


def run_command(args: argparse.Namespace) -> int:
    model, folder, details = detect(str(args.folder))
    if model.name not in MODELS:
        raise BenchError(f"{folder} is a {model.title}, which has no peer here")
    utterances = spread(utterances_of(args.manifest, [args.split]), args.limit)
    waveforms = [waveform_of(item.path) for item in tqdm(utterances, "recordings")]
    rows, rates = list[list[str]](), dict[str, str]()
    step = args.step_ms * SAMPLE_RATE // 1000
    written = {"recordings": recorded(model.name, folder, waveforms, args.beam)}
    if details.is_live:
        written["live"] = live(model.name, folder, waveforms, step, args.beam)
    for beam_size in args.beam:
        name = f"beam of {beam_size}" if beam_size > 1 else "greedy"
        expected: list[PeerResult] = []
        if peer := peer_of(model.name, folder, beam_size, step):
            expected = [peer(item) for item in tqdm(waveforms, f"peer, {name}")]
            rates = rates_by_source(utterances, [item.text for item in expected])
            rows.append([f"peer, {name}", *rates.values(), "", ""])
        for sent, of_beams in written.items():
            outputs = of_beams[beam_size]
            rates = rates_by_source(utterances, [text_of(item) for item in outputs])
            row = [f"Conch, {name}, {sent}", *rates.values()]
            rows.append([*row, *compared(outputs, expected)])
    print(table(["WER %", *rates, "same text", "log probability"], rows))
    return 0


def compared(outputs: Sequence[Outputs], expected: Sequence[PeerResult]) -> tuple[str, str]:
    """Return how many texts are equal, and how far apart log probabilities of words are."""
    if not expected:
        return "", ""
    pairs = [*zip(outputs, expected, strict=True)]
    same = [pair for pair in pairs if tight(text_of(pair[0])) == tight(pair[1].text)]
    apart = [distance for pair in same for distance in distances(*pair)]
    furthest = f"{max(apart):.0e}" if apart else ""
    return f"{len(same)} of {len(pairs)}", furthest


def distances(outputs: Outputs, result: PeerResult) -> FloatArray:
    """Return the differences of log probabilities of words; none if the peer does not tell them."""
    words: list[list[float]] = []
    for unit, log_prob in zip(result.units, result.log_probs, strict=False):
        if unit[0] in " ▁" or not words:
            words.append([])
        if unit.strip(" ▁"):  # a space alone is of no word
            words[-1].append(log_prob)
    known = words_of(outputs, "word_confidences")
    if len(known) != len(words):
        return np.zeros(0, np.float32)
    means = np.array([np.mean(item) for item in words], np.float32)
    return np.asarray(np.abs(np.log(known) - means))


def tight(text: str) -> str:
    """Return a text without the spaces next to Chinese letters, which only Conch writes."""
    return re.sub(r"(?<=[\u4e00-\u9fff]) | (?=[\u4e00-\u9fff])", "", text)


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path)
    parser.add_argument("--beam", type=int, nargs="*", default=[1, 4], help="sizes; 1 is greedy")


COMMAND = Command(
    run=run_command,
    description="Compare what a folder writes in Conch and in its authors' runtime, utterance by "
    "utterance. Conch's components run in this process, without a server. The log probabilities "
    "are those of words with the same text, where the runtime tells them.",
    epilog="""
examples:
  python -m lab same-text FOLDER --manifest speech/manifest.tsv --split dev --limit 200
""",
    flags="""
--manifest FILE!   utterances with their texts
--split NAME=dev   of the manifest
--limit N          utterances, evenly taken (default: all)
--step-ms N=100    live audio that comes at once
""",
    add=_add,
    has_report=False,
)
