"""The training loop."""

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from conch.decoding.units import BLANK, Units
from conch.scoring.error_rates import percent, word_error_rate
from lab.training.ctc import checkpoint
from lab.training.ctc.augment import AugmentConfig, drawn_masks
from lab.training.ctc.data import Batch, Batches, loaded
from lab.training.ctc.model import CtcModel
from lab.training.ctc.scoring import greedy_texts, log_probs_of

STREAMING_CHUNK = 32
"""Encoder frames of the streaming figure: 640 ms."""
STREAMING_LEFT = 256
"""Encoder frames before a chunk that it sees: 5.1 s."""
_REPORT_S = 20.0


@dataclass(frozen=True, slots=True)
class Dev:
    """Utterances to follow the training by."""

    waveforms: Sequence[NDArray[np.float32]]
    texts: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerConfig:
    out: Path
    seed: int = 1
    epochs: float | None = None
    """Either these …"""
    minutes: float | None = None
    """… or these end the training."""
    output_only_steps: int = 100
    """First the output layer learns alone. Otherwise it writes nothing but blanks for hundreds of
    steps, and its gradients meanwhile wreck what the encoder knew."""
    first_rate: float = 1e-2
    """Learning rate of the output layer in those steps."""
    output_rate: float = 1e-3
    """And after them."""
    peak_rate: float = 8e-5
    """Highest learning rate of the encoder."""
    warm_up_steps: int = 60
    """In which the encoder's rate rises; then both fall as a half cosine."""
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    full_context_chance: float = 0.5
    """Of a batch; the others have chunks of one drawn length."""
    chunk_frames: tuple[int, int] = (4, 64)
    """Shortest and longest chunk, drawn evenly on a logarithmic scale."""
    left_frames: tuple[int, int] = (48, 320)
    """What a chunk sees before it, drawn evenly."""
    moved_chance: float = 0.25
    """Of an utterance at positions of a long stream, not at its start."""
    masks: AugmentConfig | None = None
    """Masks of the features; none if None."""
    bf16: bool = True
    workers: int = 1
    evaluate_minutes: float = 10.0
    checkpoint_minutes: float = 3.0
    average: int = 5
    """Checkpoints kept, and averaged at the end."""


class Trainer:
    """One training, from its first batch or a checkpoint to the averaged model."""

    def __init__(
        self,
        model: CtcModel,
        units: Units,
        batches: Batches,
        dev: Dev,
        config: TrainerConfig,
        device: torch.device,
    ) -> None:
        self.model = model.to(device)
        self.units, self.batches, self.dev = units, batches, dev
        self.config, self.device = config, device
        output = list(model.output.parameters())
        known = {id(item) for item in output}
        encoder = [item for item in model.parameters() if id(item) not in known]
        self._encoder = encoder
        self.optimizer = torch.optim.AdamW(
            [{"params": encoder}, {"params": output}],
            lr=0.0,
            betas=(0.9, 0.98),
            weight_decay=config.weight_decay,
            fused=True,
        )
        self.number = 0
        """Number of the next step, in which every process has a different batch."""
        self.processes = dist.get_world_size() if dist.is_initialized() else 1
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.elapsed_s = 0.0
        self.losses: list[float] = []
        """Negative log likelihood per unit, of every batch."""
        config.out.mkdir(parents=True, exist_ok=True)

    def resume(self, path: Path) -> None:
        content = checkpoint.load(path)
        self.model.load_state_dict(content["model"])
        self.optimizer.load_state_dict(content["optimizer"])
        self.number, self.elapsed_s = content["number"], content["elapsed_s"]
        self.losses = content["losses"]
        self._log(f"resumed from {path.name} after {self.elapsed_s / 60:.1f} min")

    def run(self) -> None:
        """Train to the end and write the averaged model."""
        config = self.config
        self._log(f"{self.batches.per_epoch} batches, {self.batches.epoch_s / 3600:.2f} h an epoch")
        self._elapsed_before_s, self._started = self.elapsed_s, time.monotonic()
        reported = saved = evaluated = self.elapsed_s
        trained_s = 0.0
        first, step = self.number * self.processes + self.rank, self.processes
        source = loaded(self.batches, range(first, 2**31, step), config.workers)
        while self.progress < 1.0:
            loss, seconds = self._train(next(source))
            self.losses.append(loss)
            self.number += 1
            trained_s += seconds
            if self.elapsed_s - reported > _REPORT_S:
                self._report(trained_s / (self.elapsed_s - reported))
                reported, trained_s = self.elapsed_s, 0.0
            if self.elapsed_s - evaluated > 60 * config.evaluate_minutes:
                evaluated = self.elapsed_s
                self.evaluate()
            if self.elapsed_s - saved > 60 * config.checkpoint_minutes:
                saved = self.elapsed_s
                self._save()
        self._save()
        if self.rank:
            return
        kept = checkpoint.checkpoints(config.out)[-config.average :]
        self.model.load_state_dict(checkpoint.averaged(kept))
        self.evaluate()
        checkpoint.save(config.out / checkpoint.FINAL, self.model, self.units)

    @property
    def progress(self) -> float:
        if self.config.epochs is not None:
            batches = round(self.config.epochs * self.batches.per_epoch)
            return self.number * self.processes / max(1, batches)
        assert self.config.minutes is not None
        return self.elapsed_s / (60 * self.config.minutes)

    def evaluate(self) -> None:
        """Report the greedy WER on the part of dev."""
        if self.rank or not self.dev.texts:
            return
        self.model.eval()
        rates = []
        for chunk in (0, STREAMING_CHUNK):
            log_probs = log_probs_of(
                self.model, self.dev.waveforms, chunk_frames=chunk, left_frames=STREAMING_LEFT
            )
            rate = word_error_rate(self.dev.texts, greedy_texts(log_probs, self.units))
            rates.append(percent(rate))
        self._log(f"dev WER, greedy: full context {rates[0]} %, 640 ms {rates[1]} %")

    def _train(self, batch: Batch) -> tuple[float, float]:
        """Take one step and return its loss and its seconds of audio, of all processes."""
        config = self.config
        self.model.train()
        rates = learning_rates(config, self.number, self.progress)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        for parameter in self._encoder:
            parameter.requires_grad_(rates[0] > 0)
        # Of the batch's number, not of a running state: a resumed training draws the same.
        rng = np.random.default_rng((config.seed, self.number, self.rank))
        loss = self._loss(batch, rng)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        mean_loss, seconds = self._shared(float(loss.detach()), batch.seconds)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.max_grad_norm)
        if torch.isfinite(norm):
            self.optimizer.step()
        return mean_loss, seconds

    def _loss(self, batch: Batch, rng: np.random.Generator) -> Tensor:
        """Return the negative log likelihood per unit, under masks and a context drawn for it."""
        config, device = self.config, self.device
        chunk, left = drawn_context(config, rng)
        moved = rng.random(len(batch.lens)) < config.moved_chance
        offsets = torch.from_numpy(moved * rng.integers(2**16, size=len(batch.lens)))
        features = batch.features.to(device)
        if config.masks is not None:
            drawn = drawn_masks(batch.lens.tolist(), features.shape[2], config.masks, rng)
            features = with_masks(features, batch.lens, *drawn)
        with torch.autocast(device.type, torch.bfloat16, enabled=config.bf16):
            log_probs, lens = self.model(
                features, batch.lens.to(device), chunk, left, offsets.to(device)
            )
        total = F.ctc_loss(
            log_probs.transpose(0, 1),
            batch.targets.to(device),
            lens,
            batch.target_lens.to(device),
            blank=BLANK,
            reduction="sum",
            zero_infinity=True,
        )
        return total / int(batch.target_lens.sum())

    def _shared(self, loss: float, seconds: float) -> tuple[float, float]:
        """Make the gradients, and the time, those of all processes; return loss and seconds."""
        self.elapsed_s = self._elapsed_before_s + time.monotonic() - self._started
        if self.processes == 1:
            return loss, seconds
        grads = [item.grad for item in self.model.parameters() if item.grad is not None]
        figures = torch.tensor([loss, seconds, self.elapsed_s], device=self.device)
        together = torch.cat([*(grad.flatten() for grad in grads), figures])
        dist.all_reduce(together)
        together /= self.processes
        start = 0
        for grad in grads:
            grad.copy_(together[start : start + grad.numel()].view_as(grad))
            start += grad.numel()
        loss, seconds, self.elapsed_s = together[start:].tolist()
        return loss, seconds * self.processes

    def _save(self) -> None:
        config = self.config
        if self.rank:
            return
        checkpoint.save(
            config.out / f"checkpoint-{self.number:08d}.pt",
            self.model,
            self.units,
            optimizer=self.optimizer.state_dict(),
            number=self.number,
            elapsed_s=self.elapsed_s,
            losses=self.losses,
        )
        for old in checkpoint.checkpoints(config.out)[: -config.average]:
            old.unlink()

    def _report(self, rtfx: float) -> None:
        epoch = self.number * self.processes / self.batches.per_epoch
        done = max(self.progress, 1e-6)
        left_min = self.elapsed_s / 60 * (1 - done) / done
        recent = self.losses[-50:]
        self._log(
            f"{100 * done:5.1f} % step {self.number} epoch {epoch:.2f} "
            f"loss {sum(recent) / len(recent):.4f} RTFx {rtfx:.0f} "
            f"rate {self.optimizer.param_groups[0]['lr']:.1e} ETA {left_min:.0f} min"
        )

    def _log(self, line: str) -> None:
        if self.rank:
            return
        print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def with_masks(
    features: Tensor, lens: Tensor, bands: NDArray[np.bool_], spans: NDArray[np.bool_]
) -> Tensor:
    """Return features `[B, F, n_mels]` with masked values at each utterance's mean."""
    device = features.device
    means = features.sum((1, 2)) / (lens.to(device) * features.shape[2])  # padding is zeros
    padded = np.pad(spans, ((0, 0), (0, features.shape[1] - spans.shape[1])))
    hidden_bands = torch.from_numpy(bands).to(device)[:, None, :]
    hidden_frames = torch.from_numpy(padded).to(device)[:, :, None]
    return torch.where(hidden_bands | hidden_frames, means[:, None, None], features)


def learning_rates(config: TrainerConfig, step: int, progress: float) -> tuple[float, float]:
    """Return the learning rates of the encoder and of the output layer."""
    since = step - config.output_only_steps
    if since < 0:
        return 0.0, config.first_rate
    fall = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    rise = min(1.0, (since + 1) / config.warm_up_steps)
    return config.peak_rate * rise * fall, config.output_rate * fall


def drawn_context(config: TrainerConfig, rng: np.random.Generator) -> tuple[int, int]:
    """Return a batch's chunk and left context in encoder frames; 0 is full context."""
    if rng.random() < config.full_context_chance:
        return 0, 0
    shortest, longest = config.chunk_frames
    chunk = round(float(np.exp(rng.uniform(np.log(shortest), np.log(longest)))))
    return chunk, int(rng.integers(config.left_frames[0], config.left_frames[1] + 1))
