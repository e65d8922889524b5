"""Train a CTC model that serves both streaming and full context, from Whisper's encoder.

    python -m lab.training.ctc.train --manifest speech/manifest.tsv --split train --out runs/first

Training goes on from the newest checkpoint in the folder, if it has one. At the end the last
checkpoints are averaged into final.pt.
"""

import argparse
import os
import random
import socket
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing

from conch.cli.bench import settings_of
from conch.decoding.units import Characters, Units
from conch.scoring.manifest import ManifestEntry
from lab.arguments import script_parser
from lab.training.ctc import checkpoint
from lab.training.ctc.augment import LIGHT, MASKS, SPEEDS
from lab.training.ctc.data import Batches, Waveforms, utterances_of
from lab.training.ctc.model import CtcModel
from lab.training.ctc.trainer import Dev, Trainer, TrainerConfig
from lab.training.ctc.units import learned_subwords
from lab.training.ctc.whisper_weights import initial_model, with_new_output
from lab.waveforms import waveform_of

AUGMENTATIONS = {"none": None, "masks": MASKS, "speeds": SPEEDS, "light": LIGHT}
FLAGS = """
--manifest FILE...        utterances and their texts
--split SPLIT...          train if left out
--out FOLDER!             for checkpoints
--cache FOLDER            for decoded waveforms; OUT/cache if left out
--init FILE               checkpoint or exported .onnx to start from in place of Whisper's encoder;
                          with --units of its encoder only
--whisper FOLDER          a CTranslate2 folder to start from; tiny.en if left out
--units UNITS             characters (default without --init), or a number of subwords
--epochs X                either these
--minutes X               or these end the training, evaluation included
--batch-s X=80            seconds of audio in a batch
--rate X=8e-5             highest learning rate of the encoder
--output-rate X=1e-3      and of the output layer
--output-only-steps COUNT=100  first steps, with the encoder as it is
--warm-up-steps COUNT=60  in which the encoder's rate rises
--augment {none,masks,speeds,light}=light  none for one epoch
--device NAME             cuda where there is one, else cpu
--processes N=1           that share each step; on CPUs one a core
--workers COUNT=1         processes that make batches
--evaluate-minutes X=10   from one evaluation to the next
--checkpoint-minutes X=3  from one checkpoint to the next
--seed COUNT=1            of all that is drawn
"""


def main(arguments: list[str] | None = None) -> None:
    args = parsed(arguments)
    if args.processes > 1:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        fill_cache(args)  # once, not once a process
        torch.multiprocessing.spawn(  # type: ignore[attr-defined,no-untyped-call]
            train_one, (args, address), args.processes
        )
    else:
        train(args)


def train_one(rank: int, args: argparse.Namespace, address: str) -> None:
    """Train as one of several processes, each on one CPU thread or its own GPU."""
    if args.device == "cuda":
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // args.processes))
    backend = "nccl" if args.device == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=address, world_size=args.processes, rank=rank)
    try:
        train(args)
    finally:
        dist.destroy_process_group()


def fill_cache(args: argparse.Namespace) -> tuple[list[ManifestEntry], Waveforms]:
    utterances = [
        item for path in args.manifest for item in utterances_of(path, args.split or ["train"])
    ]
    if not utterances:
        raise SystemExit(f"no utterance of split {args.split} in {args.manifest}")
    return utterances, Waveforms(utterances, args.cache or args.out / "cache")


def train(args: argparse.Namespace) -> None:
    if args.device == "cuda":
        # It plans for every shape of a batch, for up to 1.5 s, and hardly two batches share one.
        torch.backends.cudnn.enabled = False
        torch.backends.cuda.enable_cudnn_sdp(False)
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    utterances, waveforms = fill_cache(args)
    existing = checkpoint.checkpoints(args.out)
    model, units = starting_model(args, existing, utterances)
    batches = Batches(
        utterances,
        waveforms,
        units,
        batch_s=args.batch_s,
        seed=args.seed,
        augment=AUGMENTATIONS[args.augment],
        n_mels=model.config.n_mels,
    )
    dev = [item for path in args.manifest for item in utterances_of(path, ["dev"])]
    config = settings_of(
        TrainerConfig,
        args,
        peak_rate=args.rate,
        output_only_steps=0 if args.init and not args.units else args.output_only_steps,
        masks=AUGMENTATIONS[args.augment],
    )
    trainer = Trainer(model, units, batches, dev_of(dev), config, torch.device(args.device))
    if existing:
        trainer.resume(existing[-1])
    trainer.run()


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parser = script_parser(__doc__, FLAGS, whisper="", device=device)
    bf16 = argparse.BooleanOptionalAction
    parser.add_argument("--bf16", action=bf16, default=True, help="products in bfloat16")
    args = parser.parse_args(arguments)
    if not args.manifest or (args.epochs is None) == (args.minutes is None):
        parser.error("give --manifest, and either --epochs or --minutes")
    return args


def starting_model(
    args: argparse.Namespace, existing: list[Path], utterances: list[ManifestEntry]
) -> tuple[CtcModel, Units]:
    """Return the model to go on with, and its units."""
    if existing:
        return checkpoint.load_model(existing[-1])
    if args.init and not args.units:
        return loaded_model(args.init)
    units = chosen_units(args.units or "characters", utterances)
    if args.init:
        encoder, _ = loaded_model(args.init)
        return with_new_output(encoder, units), units
    # Only who starts from one needs CTranslate2.
    from conch.families.whisper.config import model_folder

    return initial_model(model_folder(args.whisper), units), units


def loaded_model(path: Path) -> tuple[CtcModel, Units]:
    if path.suffix != ".onnx":
        return checkpoint.load_model(path)
    from lab.training.ctc.imported import load_exported  # only who starts from one needs onnx

    return load_exported(path)


def chosen_units(name: str, utterances: list[ManifestEntry]) -> Units:
    """Return characters, or as many subwords as the name says."""
    if name == "characters":
        return Characters()
    return learned_subwords([item.text for item in utterances], int(name))


def dev_of(utterances: list[ManifestEntry], count: int = 60) -> Dev:
    """Return a fixed part of dev, of LibriSpeech where the manifest has it."""
    books = [item for item in utterances if item.source.startswith("librispeech")] or utterances
    part = random.Random(0).sample(books, min(count, len(books)))
    return Dev([waveform_of(item.path) for item in part], [item.text for item in part])


if __name__ == "__main__":
    main()
