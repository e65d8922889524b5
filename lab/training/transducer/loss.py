"""The loss of a transducer that writes at most one unit a frame (https://arxiv.org/abs/1211.3711)."""

from typing import Any

import torch
from torch import Tensor

_NEVER = -1e30


def transducer_loss(blank: Tensor, unit: Tensor, lens: Tensor, target_lens: Tensor) -> Tensor:
    """Return the negative log likelihood of each utterance's units, float32 `[B]`.

    Each frame writes a blank or the next unit: so do the searches of sherpa-onnx.

    Args:
        blank: float32 `[B, T, U + 1]`: log probability of the blank at a frame after u units.
        unit: as `blank`: log probability of the unit u + 1; the last column is not read.
        lens: int64 `[B]`: frames of each utterance, no fewer than its units.
        target_lens: int64 `[B]`: units of each utterance.
    """
    loss: Tensor = _Lattice.apply(blank, unit, lens, target_lens)  # type: ignore[no-untyped-call]
    return loss


class _Lattice(torch.autograd.Function):
    """The sum over all paths, forwards; its gradient is how likely a path takes each arc."""

    @staticmethod
    def forward(ctx: Any, blank: Tensor, unit: Tensor, lens: Tensor, target_lens: Tensor) -> Tensor:
        batch, num_frames, width = blank.shape
        rows = torch.arange(batch, device=blank.device)
        alphas = blank.new_full((num_frames + 1, batch, width), _NEVER)
        alphas[0, :, 0] = 0.0
        for t in range(num_frames):
            alphas[t + 1] = alphas[t] + blank[:, t]
            written = alphas[t, :, :-1] + unit[:, t, :-1]
            alphas[t + 1, :, 1:] = torch.logaddexp(alphas[t + 1, :, 1:], written)
        total = alphas[lens, rows, target_lens]
        ctx.save_for_backward(blank, unit, lens, target_lens, alphas, total)
        return -total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        blank, unit, lens, target_lens, alphas, total = ctx.saved_tensors
        batch, num_frames, width = blank.shape
        last = blank.new_full((batch, width), _NEVER)
        last[torch.arange(batch, device=blank.device), target_lens] = 0.0
        beta = last.clone()
        blanks, units = torch.zeros_like(blank), torch.zeros_like(unit)
        scale = gradient[:, None]
        for t in range(num_frames - 1, -1, -1):
            beta = torch.where((lens == t + 1)[:, None], last, beta)
            before = alphas[t] - total[:, None]
            by_blank = blank[:, t] + beta
            by_unit = unit[:, t, :-1] + beta[:, 1:]
            heard = scale * (lens > t)[:, None]
            blanks[:, t] = -heard * torch.exp(before + by_blank)
            units[:, t, :-1] = -heard * torch.exp(before[:, :-1] + by_unit)
            beta = by_blank
            beta[:, :-1] = torch.logaddexp(beta[:, :-1], by_unit)
        return blanks, units, None, None
