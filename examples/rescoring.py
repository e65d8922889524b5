"""Show what the language model does to the n-best list: rescoring off and on, side by side.

How to run it:

    conch serve &
    python examples/rescoring.py speech.wav --lm-weight 0.3
"""

import argparse

from conch.client import Client


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--nbest", type=int, default=5)
    parser.add_argument("--lm-weight", type=float, default=0.15)
    parser.add_argument("--word-bonus", type=float, default=0.5)
    args = parser.parse_args()

    with Client(args.url) as client:
        off = client.transcribe(args.file, nbest=args.nbest, rescore=False)
        on = client.transcribe(
            args.file,
            nbest=args.nbest,
            rescore=True,
            lm_weight=args.lm_weight,
            word_bonus=args.word_bonus,
        )

    print(f"off: {' -> '.join(off.path)}")
    for hypothesis in off.nbest:
        print(f"{hypothesis.score:9.3f}  {hypothesis.text}")

    print(f"\non: {' -> '.join(on.path)}")
    print(f"score = am + {args.lm_weight:g} * lm + {args.word_bonus:g} * words")
    for hypothesis in on.nbest:
        parts = f"{hypothesis.am_score:9.3f} {hypothesis.lm_score:9.3f} {hypothesis.num_words:3d}"
        print(f"{hypothesis.score:9.3f} = {parts}  {hypothesis.text}")


if __name__ == "__main__":
    main()
