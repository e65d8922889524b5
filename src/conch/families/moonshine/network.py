"""Moonshine's graphs at work: a waveform to hidden states, and the steps of a decoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from onnxruntime import OrtValue

from conch.component.arrays import Array, FloatArray, IntArray
from conch.component.onnx import open_network, session_options
from conch.families.moonshine.declaration import STEP_FILES

FRAME_SAMPLES = 384
"""Samples from one hidden state to the next: 24 ms."""
LEAST_SAMPLES = 1600
"""Shortest waveform: a shorter one is filled with zeros. Of 895 samples there is a first frame."""


class Advance(NamedTuple):
    """What a step says of each hypothesis."""

    best_log_probs: FloatArray
    """float32 `[rows, tokens, best]`, natural logarithms, the best first."""
    best_ids: IntArray
    """int64 `[rows, tokens, best]`."""
    target_log_probs: FloatArray
    """float32 `[rows, tokens]`: of `Step.targets`."""
    attention: FloatArray
    """float32 `[rows, tokens, frames]`: mean cross-attention of the upper layers."""


class MoonshineEncoder:
    def __init__(self, folder: Path, threads: int) -> None:
        self._session = _opened(folder / "encoder.onnx", threads)

    def __call__(self, waveform: FloatArray) -> FloatArray:
        """Return hidden states float32 `[frames, size]` of float32 `[samples]`, 16 kHz."""
        filled = np.pad(waveform, (0, max(0, LEAST_SAMPLES - len(waveform))))
        [hidden] = self._session.run(None, {"waveform": filled[None]})
        found: FloatArray = hidden[0]
        return found


class MoonshineDecoder:
    """The decoder: `begin` makes a `Hypotheses` of a segment, `advance` lets many make a step."""

    def __init__(self, folder: Path, threads: int) -> None:
        self._cross = _opened(folder / "cross.onnx", threads)
        self._steps = [
            _Steps(_opened(folder / name, threads), most) for name, most in STEP_FILES.items()
        ]
        self._cross_names = [item.name for item in self._cross.get_outputs()]
        self.size = self._steps[0].size

    def begin(self, hidden: FloatArray) -> "Hypotheses":
        """Return one hypothesis without tokens, of hidden states float32 `[frames, size]`."""
        inputs = {"hidden": OrtValue.ortvalue_from_numpy(np.ascontiguousarray(hidden[None]))}
        cross = self._cross.run_with_ort_values(self._cross_names, inputs)
        return Hypotheses(cross, self._steps[0].no_past)

    def advance(self, steps: Sequence["Step"]) -> list[Advance]:
        """Make the steps of different hypotheses, which are independent; after an error, none."""
        found: list[tuple[Advance, Sequence[OrtValue]]] = []
        while len(found) < len(steps):
            together = _first(steps[len(found) :])
            run = next(run for run in self._steps if len(together) <= run.most)
            found += run(together)
        for step, (_, past) in zip(steps, found, strict=True):
            step.hypotheses.past = past
            step.hypotheses.length += len(step.ids[0])
        return [advance for advance, _ in found]


class Hypotheses:
    """The hypotheses of one segment, which grow token by token inside ONNX Runtime."""

    def __init__(self, cross: Sequence[OrtValue], no_past: Sequence[OrtValue]) -> None:
        self.cross, self.past, self._no_past = cross, no_past, no_past
        self.length = 0
        """Tokens of each hypothesis, the start of the text among them."""

    def keep(self, length: int) -> None:
        """Take back all tokens but the first ones; the start of the text counts as one."""
        if length == self.length:
            return
        self.length = length
        if not length:
            self.past = self._no_past
            return
        self.past = [
            OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value.numpy()[:, :, :length]))
            for value in self.past
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Tokens that are added to the hypotheses of a segment, which replace those of the step before.

    The log probability of each of `targets`, by default of `ids`, is wanted after each of `ids`.
    """

    hypotheses: Hypotheses
    ids: Sequence[Sequence[int]]
    """Tokens of each hypothesis, equally many."""
    parents: Sequence[int]
    """Hypotheses of the step before that these go on from."""
    num_best: int = 1
    targets: Sequence[Sequence[int]] | None = None

    @property
    def num_tokens(self) -> int:
        return len(self.ids) * len(self.ids[0])


class _Steps:
    """A graph of `graphs.step`, for at most `most` segments."""

    def __init__(self, session: onnxruntime.InferenceSession, most: int) -> None:
        self._session, self.most = session, most
        names = [item.name for item in session.get_inputs()]
        self._cross_names, self._past_names = (
            [_of(number, names, kind) for number in range(most)] for kind in ("cross_", "past_")
        )
        given = {item.name: item.shape for item in session.get_inputs()}
        _, heads, _, head = given[self._past_names[0][0]]
        self.size = heads * head
        self.no_past = [_value(np.zeros((1, heads, 0, head), np.float32))] * len(
            self._past_names[0]
        )
        told = [item.name for item in session.get_outputs()]
        present = [_of(number, told, ("keys", "values")) for number in range(most)]
        self._outputs = [
            *_FOUND,
            *(name for at, names in enumerate(present) for name in (f"attention.{at}", *names)),
        ]
        """Names of outputs: those of all tokens, then those of each segment."""
        absent_cross = {
            name: _value(
                np.zeros([size if isinstance(size, int) else 1 for size in shape], np.float32)
            )
            for name, shape in given.items()
            if name.startswith("cross_")
        }
        absent_past = dict.fromkeys(chain(*self._past_names), self.no_past[0])
        absent = {
            **{f"shape.{at}": _ints(0, 1, self.size) for at in range(most)},
            **{f"parents.{at}": _ints() for at in range(most)},
        }
        self._absent = absent_cross | absent_past | absent

    def __call__(self, steps: Sequence[Step]) -> list[tuple[Advance, Sequence[OrtValue]]]:
        """Return what the steps of at most `most` segments say, and their new past."""
        counts = [step.num_tokens for step in steps]
        places = [
            np.arange(step.hypotheses.length, step.hypotheses.length + len(row))
            for step in steps
            for row in step.ids
        ]
        given = {
            "ids": _ints([*chain(*(row for step in steps for row in step.ids))]),
            "targets": _ints(
                [*chain(*(row for step in steps for row in step.targets or step.ids))]
            ),
            "positions": _ints(np.concatenate(places)),
            "num_best": _ints(max(step.num_best for step in steps)),
            "counts": _ints(*counts, *[0] * (self.most - len(steps))),
        }
        for at, step in enumerate(steps):
            given[f"shape.{at}"] = _ints(len(step.ids), len(step.ids[0]), self.size)
            given[f"parents.{at}"] = _ints(*step.parents)
            given.update(zip(self._past_names[at], step.hypotheses.past, strict=True))
            given.update(zip(self._cross_names[at], step.hypotheses.cross, strict=True))
        found = self._session.run_with_ort_values(self._outputs, self._absent | given)
        best, best_ids, wanted = (item.numpy()[0] for item in found[: len(_FOUND)])
        advances, begin, each = [], 0, 1 + len(self.no_past)
        for at, step in enumerate(steps):
            attention, *past = found[len(_FOUND) + at * each :][:each]
            shape, tokens = (len(step.ids), len(step.ids[0]), -1), slice(begin, begin + counts[at])
            begin += counts[at]
            advance = Advance(
                best[tokens, : step.num_best].reshape(shape),
                best_ids[tokens, : step.num_best].reshape(shape),
                wanted[tokens].reshape(shape[:2]),
                attention.numpy().reshape(shape),
            )
            advances.append((advance, past))
        return advances


_FOUND = ("best_log_probs", "best_ids", "target_log_probs")
_MOST_TOKENS = 256
"""Tokens of one call, each of which takes 260 KB for its log probabilities."""


def _first(steps: Sequence[Step]) -> Sequence[Step]:
    """Return the first steps, at least one: as many as one call takes."""
    totals = accumulate(step.num_tokens for step in steps)
    fit = sum(1 for total in totals if total <= _MOST_TOKENS)
    return steps[: max(1, min(fit, max(STEP_FILES.values())))]


def _of(segment: int, names: Sequence[str], kind: str | tuple[str, ...]) -> list[str]:
    return [name for name in names if name.startswith(kind) and name.endswith(f".{segment}")]


def _ints(*values: Any) -> OrtValue:
    """Return int64 `[values]`, or `[1, n]` of one sequence of n."""
    return _value(np.array(values, np.int64))


def _value(array: Array) -> OrtValue:
    return OrtValue.ortvalue_from_numpy(array)


def _opened(path: Path, threads: int) -> onnxruntime.InferenceSession:
    return open_network("graph of Moonshine", path, session_options(threads))
