"""Train the network that sets punctuation and capitals.

    python -m lab.training.punctuation.train --texts texts/*.txt --minutes 30 --out runs/punctuation

Texts are those of `collect`. The last file is OUT/final.pt, with the words of the vocabulary.
"""

import time
from collections.abc import Mapping
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from conch.families.punctuation.model import MARKS
from conch.whole import made_whole
from lab.arguments import script_parser
from lab.training.punctuation import data
from lab.training.punctuation.model import Config, Punctuation

FLAGS = """
--out FOLDER!         for checkpoints
--minutes X           the rate falls to nothing by then
--steps N             in place of --minutes; then the same each time
--words N=24000       of the vocabulary
--batch-words N=3072  with padding
--rate X=2.5e-3       highest learning rate
--unknown X=0.03      share of words hidden
--wrong X=0.04        share of words replaced
--threads N=1         of PyTorch
--seed COUNT=1        of all that is drawn
"""
CASE_WEIGHT = 0.5


def main(arguments: list[str] | None = None) -> None:
    parser = script_parser(__doc__, FLAGS)
    parser.add_argument("--texts", type=Path, nargs="+", required=True)
    args = parser.parse_args(arguments)
    if (args.minutes is None) == (args.steps is None):
        parser.error("one of --minutes and --steps is needed")
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    lines = data.read_lines(args.texts)
    vocabulary = data.vocabulary_of(lines, args.words)
    inside, capitals = data.cased_forms(lines)
    corpus = data.corpus_of(lines, vocabulary, capitals)
    print(
        f"{len(corpus.marks):,} words, {len(vocabulary.words):,} different; "
        f"{len(inside)} with a capital inside, {len(capitals)} in capitals",
        flush=True,
    )
    torch.manual_seed(args.seed)
    model = Punctuation(Config(), vocabulary.size)
    described = {"words": vocabulary.words, "inside": inside}
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate, weight_decay=0.01)
    began, seen, losses, said = time.monotonic(), 0, [], 0.0
    windows = data.batches(corpus, args.batch_words, args.unknown, args.wrong, args.seed)
    for step, batch in enumerate(windows):
        passed = time.monotonic() - began
        done = step / args.steps if args.steps else passed / 60 / args.minutes
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = args.rate * min(1.0, (step + 1) / 200) * max(0.01, 1 - done)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(batch.features).float()
        loss = loss_of(logits, batch)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seen += int((batch.marks >= 0).sum())
        losses.append(loss.item())
        if passed - said > 30:
            said = passed
            print(
                f"{passed / 60:.1f} min, step {step}, {seen / len(corpus.marks):.2f} passes, "
                f"loss {sum(losses) / len(losses):.4f}",
                flush=True,
            )
            losses.clear()
            save(args.out / "last.pt", model, described)
    save(args.out / "final.pt", model, described)


def loss_of(logits: torch.Tensor, batch: data.Batch) -> torch.Tensor:
    """Return the mean cross entropy of marks, and of cases at CASE_WEIGHT."""
    marks, cases = logits[..., : len(MARKS)], logits[..., len(MARKS) :]
    return cross_entropy(marks.flatten(0, 1), batch.marks.flatten()) + CASE_WEIGHT * cross_entropy(
        cases.flatten(0, 1), batch.cases.flatten()
    )


def save(path: Path, model: Punctuation, described: Mapping[str, object]) -> None:
    with made_whole(path) as made:
        torch.save({"config": model.config, "state": model.state_dict(), **described}, made)


if __name__ == "__main__":
    main()
