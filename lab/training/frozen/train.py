"""The training of what a family adds, and of the encoder's last layers, on frames of `encode`.

Shards that appear meanwhile are read from the next pass on. A checkpoint is written every five
minutes; at the end the weights are the running mean of the last steps, in final.pt.
"""

import argparse
import copy
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from lab.training.ctc.scoring import wer
from lab.training.frozen.model import FrozenEncoder, save
from lab.training.transducer.units import text_of

Item = tuple[Tensor, list[int], str]
"""Float16 `[T, D]` of the frozen layers, units and text."""
_REPORT_S = 30.0


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Return the options of every training."""
    parser = argparse.ArgumentParser(description=description and description.splitlines()[0])
    add = parser.add_argument
    add("--encoded", type=Path, required=True, help="folder of `encode`")
    add("--out", type=Path, required=True)
    add("--minutes", type=float, required=True)
    add("--init", type=Path, help="checkpoint to go on from; the start of `encode` if left out")
    add("--batch-s", type=float, default=40.0, help="seconds of audio in a batch")
    add("--rate", type=float, default=1e-3, help="highest learning rate of the new layers")
    add("--encoder-rate", type=float, default=1e-4, help="and of the encoder's")
    add("--head-steps", type=int, default=100, help="first steps, with the encoder as it is")
    add("--masked", type=float, default=0.1, help="share of frames that are hidden")
    add("--whole", type=float, default=0.0, help="share of batches in which a frame sees all")
    return parser


def train(model: FrozenEncoder, tokenizer: str, args: argparse.Namespace) -> None:
    """Train for the minutes that the options of `parser_of` give."""
    args.out.mkdir(parents=True, exist_ok=True)
    layers: list[nn.Module] = [*model.encoder.layers[model.config.frozen_layers :]]
    encoder = [item for part in [*layers, model.encoder.norm] for item in part.parameters()]
    head = [item for part in model.new_parts for item in part.parameters()]
    optimizer = torch.optim.AdamW(
        [{"params": head}, {"params": encoder}], lr=0.0, betas=(0.9, 0.98), weight_decay=0.01
    )
    mean = copy.deepcopy(model)
    rng = np.random.default_rng(1)
    started = reported = saved = time.monotonic()
    losses, heard = [], 0.0
    for step, (hidden, lens, targets) in enumerate(
        batches(args.encoded, args.batch_s, model.config.stack)
    ):
        elapsed = (time.monotonic() - started) / 60
        falling = 0.5 + 0.5 * math.cos(math.pi * min(1.0, elapsed / args.minutes))
        warm = min(1.0, (step + 1) / 50)
        late = min(1.0, max(0.0, (step - args.head_steps) / 50))
        optimizer.param_groups[0]["lr"] = args.rate * falling * warm
        optimizer.param_groups[1]["lr"] = args.encoder_rate * falling * late
        loss = loss_of(
            model,
            hidden,
            lens,
            targets,
            args.masked,
            frozen=step < args.head_steps,
            is_whole=rng.random() < args.whole,
        )
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_([*head, *encoder], 1.0)
        optimizer.step()
        with torch.no_grad():
            kept = min(0.995, (step + 1) / (step + 11))
            for slow, fast in zip(mean.parameters(), model.parameters(), strict=True):
                if fast.grad is not None:
                    slow.lerp_(fast, 1 - kept)
        losses.append(loss.item())
        heard += float(lens.sum()) / 50
        now = time.monotonic()
        if now - reported > _REPORT_S:
            print(
                f"{elapsed:.1f} min, step {step}, loss {np.mean(losses):.3f}, "
                f"{heard / (now - reported):.0f} s/s",
                flush=True,
            )
            reported, losses, heard = now, [], 0.0
        if now - saved > 300 or elapsed > args.minutes:
            saved = now
            done = elapsed > args.minutes
            save(args.out / ("final.pt" if done else "checkpoint.pt"), mean, tokenizer)
            print(
                f"{elapsed:.1f} min: dev WER {dev_wer(mean, tokenizer, args.encoded):.2f}",
                flush=True,
            )
            if done:
                return


def batches(
    folder: Path, batch_s: float, stack: int
) -> Iterator[tuple[Tensor, Tensor, list[list[int]]]]:
    """Yield hidden frames, lengths and targets of all shards that there are, pass after pass."""
    rng = np.random.default_rng(0)
    shards: dict[Path, list[Item]] = {}
    while True:
        for path in sorted(folder.glob("train-*.pt")):
            if path not in shards:
                shards[path] = torch.load(path, weights_only=True)
        items = [
            item
            for shard in shards.values()
            for item in shard
            if len(item[1]) < len(item[0]) // stack
        ]
        keys = [len(item[0]) * rng.uniform(0.93, 1.07) for item in items]
        groups: list[list[Item]] = [[]]
        for index in np.argsort(keys):
            item = items[index]
            if len(item[0]) * (len(groups[-1]) + 1) > 50 * batch_s and groups[-1]:
                groups.append([])
            groups[-1].append(item)
        print(f"a pass over {sum(map(len, (i[0] for i in items))) / 180_000:.2f} h", flush=True)
        for index in rng.permutation(len(groups)):
            yield collated_items(groups[index], stack)


def collated_items(items: Sequence[Item], stack: int = 2) -> tuple[Tensor, Tensor, list[list[int]]]:
    """Return float32 `[B, T, D]` with T a multiple of `stack`, lengths and targets."""
    lens = torch.tensor([len(item[0]) for item in items])
    longest = -(-int(lens.max()) // stack) * stack
    hidden = torch.zeros(len(items), longest, items[0][0].shape[1])
    for row, item in enumerate(items):
        hidden[row, : len(item[0])] = item[0].float()
    return hidden, lens, [item[1] for item in items]


def loss_of(
    model: FrozenEncoder,
    hidden: Tensor,
    lens: Tensor,
    targets: list[list[int]],
    masked: float = 0.0,
    *,
    frozen: bool = False,
    is_whole: bool = False,
) -> Tensor:
    """Return the loss of a batch.

    Args:
        model: in training.
        hidden: float32 `[B, T, D]` of the frozen layers.
        lens: int64 `[B]`: of T.
        targets: units of each utterance.
        masked: share of frames that are hidden, in spans of up to 0.4 s.
        frozen: whether the encoder is left as it is.
        is_whole: whether a frame sees all others in the trained layers.
    """
    if masked:
        spans = torch.rand(hidden.shape[:2]) < masked / 21
        near = nn.functional.max_pool1d(spans.float(), 21, 1, 10)
        hidden = hidden * (near < 0.5)[:, :, None]
    with torch.autocast("cpu", torch.bfloat16):
        with torch.set_grad_enabled(not frozen):
            for_output = model.trained_layers(hidden, lens, is_whole=is_whole)
        encoder_out = model.projected(for_output)
        return model.loss(encoder_out, model.output_lens(lens), targets)


@torch.inference_mode()
def dev_wer(model: FrozenEncoder, tokenizer: str, folder: Path) -> float:
    """Return the greedy word error rate on the shards of dev, in per cent; nan without any."""
    texts, found = [], []
    for path in sorted(folder.glob("dev-*.pt")):
        items: list[Item] = torch.load(path, weights_only=True)
        items.sort(key=lambda item: len(item[0]))
        for start in range(0, len(items), 8):
            some = items[start : start + 8]
            hidden, lens, _ = collated_items(some, model.config.stack)
            output = model.projected(model.trained_layers(hidden, lens))
            units = model.greedy(output, model.output_lens(lens))
            found += [text_of(tokenizer, item) for item in units]
            texts += [item[2] for item in some]
    return wer(texts, found) if texts else math.nan
