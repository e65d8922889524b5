"""Agreement of two views of one utterance (CR-CTC, https://arxiv.org/abs/2410.05101)."""

from typing import NamedTuple

import torch
from torch import Tensor

FULL_CONTEXT = 1 << 30
"""The context of a view that sees the whole utterance, in encoder frames."""


class View(NamedTuple):
    """What the model says of a batch under one set of masks and one context."""

    log_probs: Tensor
    """float32 `[B, T, vocab_size]`."""
    lens: Tensor
    """int64 `[B]`: of T."""
    context: int
    """Encoder frames of a chunk, or `FULL_CONTEXT`."""


def disagreement(first: View, second: View) -> Tensor:
    """Return by how many nats the frames of two views differ, summed over the batch.

    Each view learns from the other one's distribution, which is held fixed, by half the
    Kullback-Leibler divergence. A view never learns from one that sees less: what a chunk cannot
    know is no example to full context.
    """
    total = first.log_probs.new_zeros(())
    for learner, teacher in ((first, second), (second, first)):
        if teacher.context >= learner.context:
            total = total + 0.5 * _divergence(teacher.log_probs.detach(), learner)
    return total


def _divergence(target: Tensor, learner: View) -> Tensor:
    per_frame = (target.exp() * (target - learner.log_probs)).sum(2)
    steps = torch.arange(per_frame.shape[1], device=per_frame.device)
    return per_frame.masked_fill(steps >= learner.lens[:, None], 0.0).sum()
