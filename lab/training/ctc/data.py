"""From manifests to batches: utterances, a cache of their waveforms, buckets of one length."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from conch.component import SAMPLE_RATE, FloatArray
from conch.component.features import FRAME_SHIFT, HISTORY, streaming_log_mel
from conch.decoding.units import Units
from conch.language import language_model_words
from conch.scoring.manifest import ManifestEntry, read_manifest
from lab.training.ctc.augment import AugmentConfig, augmented
from lab.waveforms import waveform_of


@dataclass(frozen=True, slots=True)
class Batch:
    features: Tensor
    """float32 `[B, F, n_mels]`, zeros after each utterance."""
    lens: Tensor
    """int64 `[B]`: of F."""
    targets: Tensor
    """int64 `[sum of target_lens]`."""
    target_lens: Tensor
    """int64 `[B]`."""
    seconds: float


def utterances_of(manifest: Path, splits: Iterable[str] = ()) -> list[ManifestEntry]:
    """Return the utterances of some splits, or of all, that have words, with the text as words.

    Words are in lower case, as the language model's. Where the manifest names no splits, every
    utterance is of every split.
    """
    wanted = set(splits)
    utterances = read_manifest(manifest)
    if not any(item.split for item in utterances):
        wanted.clear()
    spoken = [
        replace(item, text=" ".join(language_model_words(item.text)))
        for item in utterances
        if not wanted or item.split in wanted
    ]
    return [item for item in spoken if item.text]


def some_utterances(manifest: Path, split: str, limit: int | None) -> list[ManifestEntry]:
    """Return about so many utterances of a split, evenly taken, or all; see `utterances_of`."""
    utterances = utterances_of(manifest, [split])
    return utterances[:: max(1, len(utterances) // (limit or len(utterances)))]


class Waveforms:
    """Utterances' waveforms, decoded once into one int16 file that is mapped into memory."""

    def __init__(self, utterances: Sequence[ManifestEntry], folder: Path) -> None:
        """Open the cache of these files in a folder, or fill it."""
        names = "\n".join(str(item.path.resolve()) for item in utterances)
        stem = folder / hashlib.sha256(names.encode()).hexdigest()[:16]
        self._samples_path = stem.with_suffix(".pcm")
        ends_path = stem.with_suffix(".npy")
        if not ends_path.is_file():  # written last
            folder.mkdir(parents=True, exist_ok=True)
            np.save(ends_path, self._fill(utterances))
        self._starts = np.concatenate([[0], np.load(ends_path)])
        self._samples: NDArray[np.int16] | None = None

    def _fill(self, utterances: Sequence[ManifestEntry]) -> NDArray[np.int64]:
        lens = []
        paths = [item.path for item in utterances]
        progress = tqdm(total=len(paths), desc="decoding", mininterval=10)
        with self._samples_path.open("wb") as file, ThreadPoolExecutor() as pool, progress:
            for start in range(0, len(paths), 128):  # a block at a time is held in memory
                for waveform in pool.map(waveform_of, paths[start : start + 128]):
                    file.write(np.round(waveform.clip(-1, 1) * 32767).astype("<i2").tobytes())
                    lens.append(len(waveform))
                    progress.update()
        return np.cumsum(lens, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._starts) - 1

    @property
    def seconds(self) -> FloatArray:
        return (np.diff(self._starts) / SAMPLE_RATE).astype(np.float32)

    def __getitem__(self, index: int) -> FloatArray:
        """Return a waveform, float32 `[samples]`, 16 kHz."""
        if self._samples is None:  # mapped by each worker process on its own
            self._samples = np.memmap(self._samples_path, dtype="<i2", mode="r")
        samples = self._samples[self._starts[index] : self._starts[index + 1]]
        return samples.astype(np.float32) / 32767


def features_of(waveform: FloatArray, n_mels: int, multiple: int = 2) -> FloatArray:
    """Return all features of a waveform, silence filling the last `multiple` frames."""
    missing = -len(waveform) % (FRAME_SHIFT * multiple)
    return streaming_log_mel(np.pad(waveform, (HISTORY, missing)), n_mels)


class Batches(torch.utils.data.Dataset[Batch]):
    """The batches of all epochs by their number; each is a function of it and of the seed."""

    def __init__(
        self,
        utterances: Sequence[ManifestEntry],
        waveforms: Waveforms,
        units: Units,
        *,
        batch_s: float,
        seed: int,
        augment: AugmentConfig | None,
        n_mels: int = 80,
        max_s: float = 25.0,
    ) -> None:
        """Plan batches of at most `batch_s` seconds, padding included."""
        self._waveforms, self._units, self._augment = waveforms, units, augment
        self._targets = [np.array(units.encode(item.text), np.int64) for item in utterances]
        self._seconds = waveforms.seconds
        self._seed, self._n_mels = seed, n_mels
        self._usable = np.flatnonzero(
            (self._seconds > 0.3) & (self._seconds <= min(max_s, batch_s))
        )
        self._batch_s = batch_s
        self._planned: tuple[int, list[NDArray[np.int64]]] = (-1, [])
        # Every epoch has as many batches as the first, so that a batch number gives its epoch.
        self.per_epoch = len(self._plan(0))
        self.epoch_s = float(self._seconds[self._usable].sum())

    def _plan(self, epoch: int) -> list[NDArray[np.int64]]:
        rng = np.random.default_rng((self._seed, epoch))
        # Neighbours in length share a batch, but not the same ones in every epoch.
        keys = self._seconds[self._usable] * rng.uniform(0.93, 1.07, len(self._usable))
        batches: list[list[int]] = [[]]
        longest = 0.0
        for index in self._usable[np.argsort(keys)]:
            longest = max(longest, float(self._seconds[index]))
            if longest * (len(batches[-1]) + 1) > self._batch_s and batches[-1]:
                batches.append([])
                longest = float(self._seconds[index])
            batches[-1].append(int(index))
        order = rng.permutation(len(batches))
        return [np.array(batches[index]) for index in order]

    def __len__(self) -> int:
        return 2**31  # epochs go on until the trainer stops

    def __getitem__(self, number: int) -> Batch:
        """Return a batch, its waveforms augmented and nothing masked."""
        epoch, position = divmod(number, self.per_epoch)
        if self._planned[0] != epoch:
            self._planned = (epoch, self._plan(epoch))
        plan = self._planned[1]
        rng = np.random.default_rng((self._seed, epoch, position))
        items = [
            (self._features(int(index), rng), self._targets[index])
            for index in plan[position % len(plan)]
        ]
        # CTC needs a frame for each unit, and one between two equal ones.
        stack = 2 * self._units.stack
        fitting = [item for item in items if len(item[0]) // stack >= _frames_needed(item[1])]
        return collated(fitting or items[:1], stack)

    def _features(self, index: int, rng: np.random.Generator) -> FloatArray:
        waveform = self._waveforms[index]
        if self._augment is None:
            return features_of(waveform, self._n_mels)

        def other() -> FloatArray:
            return self._waveforms[int(rng.choice(self._usable))]

        return features_of(augmented(waveform, other, self._augment, rng), self._n_mels)


def _frames_needed(target: NDArray[np.int64]) -> int:
    return len(target) + int(np.sum(target[1:] == target[:-1]))


def collated(items: Sequence[tuple[FloatArray, NDArray[np.int64]]], multiple: int) -> Batch:
    """Return features and targets as one batch whose F is a multiple."""
    lens = [len(features) for features, _ in items]
    longest = -(-max(lens) // multiple) * multiple
    padded = np.zeros((len(items), longest, items[0][0].shape[1]), np.float32)
    for row, (features, _) in enumerate(items):
        padded[row, : len(features)] = features
    return Batch(
        features=torch.from_numpy(padded),
        lens=torch.tensor(lens),
        targets=torch.from_numpy(np.concatenate([target for _, target in items])),
        target_lens=torch.tensor([len(target) for _, target in items]),
        seconds=sum(lens) / 100,
    )


def loaded(batches: Batches, numbers: Sequence[int], workers: int) -> Iterator[Batch]:
    """Return an iterator over the batches of these numbers, made in worker processes."""
    return iter(
        torch.utils.data.DataLoader(
            batches,
            batch_size=None,
            sampler=numbers,
            num_workers=workers,
            prefetch_factor=6 if workers else None,
        )
    )
