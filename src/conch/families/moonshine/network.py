"""Moonshine's graphs at work: the `moonshine_encoder` component, and the steps of a decoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from onnxruntime import OrtValue

from conch.component import FloatArray, IntArray, Outputs, Row, RowByRow
from conch.component.onnx import open_network
from conch.component.parameters import NiceConfig, be_nice
from conch.families.moonshine import STEP_FILES
from conch.families.moonshine.weights import moonshine_folder
from conch.wire.errors import ConfigError

FRAME_SAMPLES = 384
"""Samples from one hidden state to the next: 24 ms."""
LEAST_SAMPLES = 1600
"""Shortest waveform: a shorter one is filled with zeros. Of 895 samples there is a first frame."""
_TOKEN_OUTPUTS = ("best_log_probs", "best_ids", "target_log_probs")
_MOST_TOKENS = 256
"""Tokens of one call, each of which takes 260 KB for its log probabilities."""
MAX_S = 30.0
"""Longest audio of one call, in seconds: of more, the decoder adds words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoonshineConfig(NiceConfig):
    def __post_init__(self) -> None:
        if self.device != "cpu":
            raise ConfigError(f"Moonshine runs with device cpu; is: {self.device}")


class Advance(NamedTuple):
    """Result of a step, by hypothesis."""

    best_log_probs: FloatArray
    """float32 `[rows, tokens, best]`, natural logarithms, the best first."""
    best_ids: IntArray
    """int64 `[rows, tokens, best]`."""
    target_log_probs: FloatArray
    """float32 `[rows, tokens]`: of `DecoderStep.targets`."""
    attention: FloatArray
    """float32 `[rows, tokens, frames]`: mean cross-attention of the upper layers."""


class EncoderComponent(RowByRow):
    def __init__(self, config: MoonshineConfig) -> None:
        be_nice(config.nice)
        folder = moonshine_folder(config.model)
        self._session = _opened(folder / "encoder.onnx", config.threads)

    def answer(self, row: Row, /) -> Outputs:
        waveform = row.segment(MAX_S)
        filled = np.pad(waveform, (0, max(0, LEAST_SAMPLES - len(waveform))))
        [hidden] = self._session.run(None, {"waveform": filled[None]})[0]
        return {"encoder_out": hidden, "encoder_out_lens": np.array([len(hidden)], np.int32)}


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
        inputs = {"hidden": _value(np.ascontiguousarray(hidden[None]))}
        cross = self._cross.run_with_ort_values(self._cross_names, inputs)
        return Hypotheses(cross, self._steps[0].no_past)

    def advance(self, steps: Sequence["DecoderStep"]) -> list[Advance]:
        """Make the steps of several independent segments; an error leaves all unchanged."""
        results: list[tuple[Advance, Sequence[OrtValue]]] = []
        while len(results) < len(steps):
            together = _first(steps[len(results) :])
            run = next(run for run in self._steps if len(together) <= run.most)
            results += run(together)
        for step, (_, past) in zip(steps, results, strict=True):
            step.hypotheses.past = past
            step.hypotheses.length += len(step.ids[0])
        return [advance for advance, _ in results]


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
            _value(np.ascontiguousarray(value.numpy()[:, :, :length])) for value in self.past
        ]


@dataclass(frozen=True, slots=True, eq=False)
class DecoderStep:
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
        given = {item.name: item.shape for item in session.get_inputs()}
        self._cross_names, self._past_names = (
            [_of(number, [*given], prefix) for number in range(most)]
            for prefix in ("cross_", "past_")
        )
        _, heads, _, head = given[self._past_names[0][0]]
        self.size = heads * head
        self.no_past = [_value(np.zeros((1, heads, 0, head), np.float32))] * len(
            self._past_names[0]
        )
        outputs = [item.name for item in session.get_outputs()]
        present = [_of(number, outputs, ("keys", "values")) for number in range(most)]
        self._outputs = [
            *_TOKEN_OUTPUTS,
            *(name for at, names in enumerate(present) for name in (f"attention.{at}", *names)),
        ]
        """Names of outputs: those of all tokens, then those of each segment."""
        self._absent = dict.fromkeys(chain(*self._past_names), self.no_past[0])
        for name in chain(*self._cross_names):
            shape = [size if isinstance(size, int) else 1 for size in given[name]]
            self._absent[name] = _value(np.zeros(shape, np.float32))
        for at in range(most):
            self._absent |= {f"shape.{at}": _ints(0, 1, self.size), f"parents.{at}": _ints()}

    def __call__(self, steps: Sequence[DecoderStep]) -> list[tuple[Advance, Sequence[OrtValue]]]:
        """Return the results of the steps of at most `most` segments, and their new pasts."""
        counts = [step.num_tokens for step in steps]
        positions = [
            np.arange(step.hypotheses.length, step.hypotheses.length + len(row))
            for step in steps
            for row in step.ids
        ]
        given = {
            "ids": _ints([*chain(*(row for step in steps for row in step.ids))]),
            "targets": _ints(
                [*chain(*(row for step in steps for row in step.targets or step.ids))]
            ),
            "positions": _ints(np.concatenate(positions)),
            "num_best": _ints(max(step.num_best for step in steps)),
            "counts": _ints(*counts, *[0] * (self.most - len(steps))),
        }
        for at, step in enumerate(steps):
            given[f"shape.{at}"] = _ints(len(step.ids), len(step.ids[0]), self.size)
            given[f"parents.{at}"] = _ints(*step.parents)
            given.update(zip(self._past_names[at], step.hypotheses.past, strict=True))
            given.update(zip(self._cross_names[at], step.hypotheses.cross, strict=True))
        outputs = self._session.run_with_ort_values(self._outputs, self._absent | given)
        best, best_ids, wanted = (item.numpy()[0] for item in outputs[: len(_TOKEN_OUTPUTS)])
        advances, begin, each = [], 0, 1 + len(self.no_past)
        for at, step in enumerate(steps):
            attention, *past = outputs[len(_TOKEN_OUTPUTS) + at * each :][:each]
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


def _first(steps: Sequence[DecoderStep]) -> Sequence[DecoderStep]:
    """Return the first steps, at least one: as many as one call takes."""
    totals = accumulate(step.num_tokens for step in steps)
    fit = sum(1 for total in totals if total <= _MOST_TOKENS)
    return steps[: max(1, min(fit, max(STEP_FILES.values())))]


def _of(segment: int, names: Sequence[str], prefix: str | tuple[str, ...]) -> list[str]:
    return [name for name in names if name.startswith(prefix) and name.endswith(f".{segment}")]


def _ints(*values: Any) -> OrtValue:
    """Return int64 `[values]`, or `[1, n]` of one sequence of n."""
    return _value(np.array(values, np.int64))


_value = OrtValue.ortvalue_from_numpy
_opened = partial(open_network, "graph of Moonshine")
