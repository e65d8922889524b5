"""Train the last layers of the encoder, CTC and the attention decoders on what `encode` wrote.

    python -m lab.training.u2pp.train --encoded runs/encoded --manifest speech/manifest.tsv \
        --minutes 50 --out runs/u2pp

The start is a transducer, whose encoder is taken; from a U2++ the training goes on.
"""

from pathlib import Path

import numpy as np
import torch

from lab.training.ctc.data import utterances_of
from lab.training.frozen.train import parser_of, train
from lab.training.transducer import model as transducers
from lab.training.transducer.encode import START
from lab.training.u2pp.features import fitted_front
from lab.training.u2pp.model import load, started
from lab.waveforms import waveform_of

_FITTED = 200
"""Utterances by which the map from filter banks is fitted."""


def main(arguments: list[str] | None = None) -> None:
    """Train as the command line says."""
    parser = parser_of(__doc__)
    parser.add_argument("--manifest", type=Path, help="by which the features are fitted at first")
    parser.set_defaults(whole=0.5)
    args = parser.parse_args(arguments)
    torch.manual_seed(0)
    if args.manifest is None:
        train(*load(args.init), args)
        return
    transducer, tokenizer = transducers.load(args.init or args.encoded / START)
    model = started(transducer)
    utterances = utterances_of(args.manifest, ["train"])
    order = np.random.default_rng(0).permutation(len(utterances))[:_FITTED]
    model.front = fitted_front(waveform_of(utterances[index].path) for index in order)
    train(model, tokenizer, args)


if __name__ == "__main__":
    main()
