"""Compute once what the frozen layers make of utterances.

    python -m lab.training.transducer.encode --manifest speech/manifest.tsv --out runs/encoded

The first run fits the map from Kaldi's filter banks, learns the units and writes start.pt. Shards
of 64 utterances follow; the same command goes on where it was interrupted.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from conch.component.kaldi_fbank import KaldiFbank
from conch.scoring.manifest import Utterance
from conch.whole import made_whole
from lab.training.ctc.data import collated, utterances_of
from lab.training.ctc.imported import load_exported
from lab.training.frozen.model import save
from lab.training.transducer.features import NUM_BINS, fitted_front, with_tail
from lab.training.transducer.model import Transducer, TransducerConfig, load
from lab.training.transducer.units import learned_units, units_of
from lab.waveforms import waveform_of

START = "start.pt"
_SHARD = 64
_FITTED = 200
"""Utterances by which the map from filter banks is fitted."""
_MAX_S = 20.0


def main(arguments: list[str] | None = None) -> None:
    """Encode as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add = parser.add_argument
    add("--manifest", type=Path, required=True)
    add("--split", action="append", help="train if left out; may be given again")
    add("--name", default="train", help="of the shards")
    add("--out", type=Path, required=True)
    add("--init", type=Path, default=Path("src/conch/families/ctc/weights/ctc-en.onnx"))
    add("--vocab-size", type=int, default=200, help="units, with <blk> and <unk>")
    add("--limit", type=int, help="utterances; all if left out")
    args = parser.parse_args(arguments)
    utterances = utterances_of(args.manifest, args.split or ["train"])
    order = np.random.default_rng(0).permutation(len(utterances))[: args.limit]
    utterances = [utterances[index] for index in order]
    args.out.mkdir(parents=True, exist_ok=True)
    start = args.out / START
    if not start.is_file():
        save(start, *started(args.init, utterances, args.vocab_size))
    model, tokenizer = load(start)
    for first in tqdm(range(0, len(utterances), _SHARD), desc="shards", mininterval=10):
        path = args.out / f"{args.name}-{first // _SHARD:04}.pt"
        if not path.is_file():
            shard = encoded(model, tokenizer, utterances[first : first + _SHARD])
            with made_whole(path) as made:
                torch.save(shard, made)


def started(init: Path, utterances: Sequence[Utterance], vocab_size: int) -> tuple[Transducer, str]:
    """Return a model with the encoder of a CTC model and a fitted front, and its units."""
    ctc, _ = load_exported(init)
    tokenizer = learned_units([item.text for item in utterances], vocab_size)
    model = Transducer(TransducerConfig(vocab_size=vocab_size, encoder=ctc.config))
    model.encoder = ctc
    model.front = fitted_front(waveform_of(item.path) for item in utterances[:_FITTED])
    return model, tokenizer


@torch.inference_mode()
def encoded(
    model: Transducer, tokenizer: str, utterances: Sequence[Utterance], batch_s: float = 60.0
) -> list[tuple[torch.Tensor, list[int], str]]:
    """Return float16 `[T, D]`, units and text of each utterance of at most 20 s."""
    fbanks = [KaldiFbank(NUM_BINS).whole(with_tail(waveform_of(item.path))) for item in utterances]
    order = sorted(range(len(fbanks)), key=lambda index: len(fbanks[index]))
    order = [index for index in order if len(fbanks[index]) <= 100 * _MAX_S]
    found = []
    while order:
        count = max(1, int(100 * batch_s / len(fbanks[order[-1]])))
        batch, order = order[-count:], order[:-count]
        inputs = collated([(fbanks[index], np.zeros(0, np.int64)) for index in batch], 4)
        with torch.autocast("cpu", torch.bfloat16):
            hidden = model.frozen(inputs.features, inputs.lens).half()
        for row, index in enumerate(batch):
            text = utterances[index].text
            frames = hidden[row, : (len(fbanks[index]) + 1) // 2].clone()
            found.append((frames, units_of(tokenizer, text), text))
    return found


if __name__ == "__main__":
    main()
