"""Write the mean of the weights of checkpoints, which is often better than each of them.

python -m lab.training.ctc.average runs/mean.pt runs/first/final.pt runs/second/final.pt
"""

from pathlib import Path

from lab.arguments import script_parser
from lab.training.ctc import checkpoint


def main(arguments: list[str] | None = None) -> None:
    parser = script_parser(__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("checkpoints", type=Path, nargs="+", metavar="CHECKPOINT")
    args = parser.parse_args(arguments)
    model, units = checkpoint.load_model(args.checkpoints[0])
    model.load_state_dict(checkpoint.averaged(args.checkpoints))
    checkpoint.save(args.out, model, units)


if __name__ == "__main__":
    main()
