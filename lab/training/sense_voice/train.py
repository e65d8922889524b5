"""Train the last layers of the encoder and the output on what the transducer's `encode` wrote.

    python -m lab.training.sense_voice.train --encoded runs/encoded --minutes 45 \\
        --manifest speech/manifest.tsv --out runs/sense-voice
"""

from dataclasses import fields
from pathlib import Path

import numpy as np
import torch

from lab.training.ctc.data import utterances_of
from lab.training.frozen.model import EncoderConfig
from lab.training.frozen.train import parser_of, train
from lab.training.sense_voice.model import SenseVoiceModel, load
from lab.training.transducer import model as transducer
from lab.training.transducer.encode import START
from lab.waveforms import waveform_of

_FITTED = 200
"""Utterances by which features are fitted."""


def main(arguments: list[str] | None = None) -> None:
    """Train as the command line says."""
    parser = parser_of(__doc__)
    parser.add_argument("--manifest", type=Path, required=True)
    args = parser.parse_args(arguments)
    torch.manual_seed(0)
    model, tokenizer = load(args.init) if args.init else started(args.encoded, args.manifest)
    train(model, tokenizer, args)


def started(encoded: Path, manifest: Path) -> tuple[SenseVoiceModel, str]:
    """Return a model with the encoder and the units of `encode`, and with fitted features."""
    start, tokenizer = transducer.load(encoded / START)
    sizes = {item.name: getattr(start.config, item.name) for item in fields(EncoderConfig)}
    model = SenseVoiceModel(EncoderConfig(**sizes))
    model.encoder = start.encoder
    utterances = utterances_of(manifest, ["train"])
    chosen = np.random.default_rng(0).permutation(len(utterances))[:_FITTED]
    model.fit(waveform_of(utterances[index].path) for index in chosen)
    return model, tokenizer


if __name__ == "__main__":
    main()
