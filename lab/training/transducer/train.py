"""Train the last layers of the encoder, the predictor and the joiner on what `encode` wrote.

python -m lab.training.transducer.train --encoded runs/encoded --minutes 50 --out runs/first
"""

import torch

from lab.training.frozen.train import parser_of, train
from lab.training.transducer.encode import START
from lab.training.transducer.model import load


def main(arguments: list[str] | None = None) -> None:
    """Train as the command line says."""
    args = parser_of(__doc__).parse_args(arguments)
    torch.manual_seed(0)
    train(*load(args.init or args.encoded / START), args)


if __name__ == "__main__":
    main()
