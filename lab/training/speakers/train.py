"""Train the embedding of voices for a telephone's band.

    python -m lab.training.speakers.train --manifest speech/manifest.tsv --split train \
        --judge dev --minutes 55 --out narrow_band.npz

The network hears pieces of calls, and learns to say what it says of the same utterance in wide
band: distillation (Hinton et al., 2015, https://arxiv.org/abs/1503.02531), with a contrast to the
other utterances of a batch. So voices need no names. OUT has what is added to each weight.
"""

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from conch.component import unit
from conch.families.speakers import MODEL as SPEAKERS
from conch.families.speakers import PACKAGE
from conch.families.speakers.components import fbank
from conch.families.speakers.weights import EMBEDDING_WEIGHTS, read_weights
from conch.packaged import packaged
from lab.arguments import script_parser
from lab.training.speakers.calls import called
from lab.training.speakers.network import Embedding
from lab.waveforms import rows_of, waveform_of

FLAGS = """
--manifest FILE!   utterances with their speakers
--split SPLIT=train  of the manifest
--judge SPLIT=dev  for equal error rates
--out FILE!        what is added to the weights
--start FILE       an earlier OUT to go on from
--minutes X=55     the rate falls to nothing by then
--most N=5000      utterances to learn from
--batch N=32       utterances of a step
--rate X=1e-3      highest learning rate
--threads N=1      of PyTorch
--seed COUNT=1     of all that is drawn
"""
FRAMES = 148
"""Of a piece of 1.5 s."""
MOST_S = 16.0
"""Seconds of an utterance that are heard."""
CALLS = 2
"""Calls that are made of each utterance."""
TARGET_PIECES = 4
TEMPERATURE, CONTRAST = 0.1, 0.2
"""Of the contrast, and what it weighs."""
WIDE_SHARE = 0.1
"""Share of the pieces in wide band."""

Features = NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class Utterance:
    """One utterance, as it was recorded and as it is heard over the telephone."""

    speaker: str
    wide: Features
    """Log-mel energies, `[frames, 80]`."""
    calls: tuple[Features, ...]


def main(arguments: Sequence[str] | None = None) -> None:
    args = script_parser(__doc__, FLAGS).parse_args(arguments)
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    source = packaged(PACKAGE, "", SPEAKERS.sha256) / EMBEDDING_WEIGHTS
    weights = {name: torch.from_numpy(item) for name, item in read_weights(source).items()}
    network = Embedding(weights)
    if args.start:
        with np.load(args.start) as shifts, torch.no_grad():
            for name in shifts.files:
                network.tuned[name].add_(torch.from_numpy(shifts[name].astype(np.float32)))
    judged = utterances(args.manifest, args.judge, 500, args.seed)
    # Others may be several people.
    judged = [item for item in judged if item.speaker.split()[-1].isdigit()]
    print(f"before: {rates(network, judged, args.seed)}", flush=True)
    learned = utterances(args.manifest, args.split, args.most, args.seed)
    with torch.no_grad():
        targets = np.stack([target(network, item.wide) for item in learned])
    print(f"{len(learned)} utterances", flush=True)
    tune(network, learned, targets, args)
    print(f"after: {rates(network, judged, args.seed)}")
    shifts = {
        name: (value.detach() - weights[name]).numpy().astype(np.float16)
        for name, value in network.tuned.items()
    }
    np.savez_compressed(args.out, **shifts)


def tune(
    network: Embedding,
    learned: Sequence[Utterance],
    targets: NDArray[np.float32],
    args: argparse.Namespace,
) -> None:
    """Let the network say of calls what `targets` say, `[utterances, size]` of unit length."""
    draw = np.random.default_rng(args.seed)
    speakers = np.array([item.speaker for item in learned])
    parameters = list(network.tuned.values())
    optimizer = torch.optim.AdamW(parameters, lr=args.rate, weight_decay=0)
    began, step, said = time.monotonic(), 0, 0.0
    while (done := (time.monotonic() - began) / 60 / args.minutes) < 1:
        for group in optimizer.param_groups:
            group["lr"] = args.rate * min(1.0, (step + 1) / 50) * max(0.02, 1 - done)
        chosen = draw.choice(len(learned), args.batch, replace=False)
        pieces = np.stack([drawn_piece(learned[index], draw) for index in chosen])
        embeddings = functional.normalize(network(torch.from_numpy(pieces)), dim=1)
        wanted = torch.from_numpy(targets[chosen])
        others = speakers[chosen]
        # Another utterance of the same speaker is no other voice.
        same = (others[:, None] == others[None]) & ~np.eye(args.batch, dtype=bool)
        scores = (embeddings @ wanted.T / TEMPERATURE).masked_fill(torch.from_numpy(same), -1e4)
        cosine = (embeddings * wanted).sum(1).mean()
        contrast = functional.cross_entropy(scores, torch.arange(args.batch))
        loss = 1 - cosine + CONTRAST * contrast
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        step += 1
        if (passed := time.monotonic() - began) - said > 60:
            said = passed
            print(f"{passed / 60:.0f} min, step {step}, cosine {cosine.item():.3f}", flush=True)


def utterances(manifest: Path, split: str, most: int, seed: int) -> list[Utterance]:
    """Return utterances of a split that are long enough, in an order by the seed."""
    required = ("path", "speaker", "source", "duration")
    rows = [row for row in rows_of(manifest, required) if row["split"] == split]
    rows = [row for row in rows if float(row["duration"]) >= 2.2 and row["source"] != "ljspeech"]
    random.Random(seed).shuffle(rows)
    made = []
    for index, row in enumerate(rows[:most]):
        draw = np.random.default_rng([seed, index])
        waveform = waveform_of(manifest.parent / row["path"])[: round(MOST_S * 16_000)]
        calls = (fbank(called(waveform, draw)).astype(np.float16) for _ in range(CALLS))
        # Who is not known is nobody else's voice.
        speaker = f"{row['source']} {row['speaker'] or row['path']}"
        made.append(Utterance(speaker, fbank(waveform).astype(np.float16), tuple(calls)))
    return made


def drawn_piece(item: Utterance, draw: np.random.Generator) -> NDArray[np.float32]:
    """Return a piece of an utterance as the network takes it, mostly of a call."""
    features = item.calls[draw.integers(CALLS)] if draw.random() > WIDE_SHARE else item.wide
    return piece(features, int(draw.integers(len(features) - FRAMES + 1)))


def piece(features: Features, first: int) -> NDArray[np.float32]:
    """Return features of a piece without their mean, `[FRAMES, 80]`."""
    cut = features[first : first + FRAMES].astype(np.float32)
    return np.asarray(cut - cut.mean(axis=0), np.float32)


def target(network: Embedding, wide: Features) -> NDArray[np.float32]:
    """Return how the voice of an utterance sounds in wide band, of unit length."""
    room = len(wide) - FRAMES
    firsts = np.unique(np.linspace(0, room, min(TARGET_PIECES, 1 + room // FRAMES)).astype(int))
    pieces = np.stack([piece(wide, first) for first in firsts])
    return unit(unit(network(torch.from_numpy(pieces)).numpy()).mean(axis=0))


def rates(network: Embedding, judged: Sequence[Utterance], seed: int) -> str:
    """Return the equal error rates of pieces of utterances: in wide band, and of calls."""
    draw = np.random.default_rng(seed)
    firsts = [int(draw.integers(len(item.wide) - FRAMES + 1)) for item in judged]
    speakers = np.array([item.speaker for item in judged])
    by_name = {}
    for name, call in (("wide", None), ("calls", 0)):
        inputs = [item.wide if call is None else item.calls[call] for item in judged]
        pieces = np.stack([piece(*pair) for pair in zip(inputs, firsts, strict=True)])
        with torch.no_grad():
            starts = range(0, len(pieces), 50)
            batches = [network(torch.from_numpy(pieces[at : at + 50])).numpy() for at in starts]
        by_name[name] = equal_error_rate(unit(np.concatenate(batches)), speakers)
    return ", ".join(f"{name} {rate:.2%}" for name, rate in by_name.items())


def equal_error_rate(sounds: NDArray[np.float32], speakers: NDArray[np.str_]) -> float:
    """Return where as many pairs of one voice are told apart as of two are taken for one."""
    pairs = np.triu_indices(len(sounds), 1)
    cosines = (sounds @ sounds.T)[pairs]
    is_same = (speakers[:, None] == speakers[None])[pairs][np.argsort(-cosines)]
    accepted = np.cumsum(~is_same) / (~is_same).sum()
    refused = 1 - np.cumsum(is_same) / is_same.sum()
    return float(accepted[np.argmin(np.abs(accepted - refused))])


if __name__ == "__main__":
    main()
