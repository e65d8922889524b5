"""Networks that are cut in two: one part runs once a sentence, the other on any stretch of it.

The rows of both are checked here.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from conch.cache import cached_folder, digest_of
from conch.component import Array, FloatArray, Row
from conch.component.onnx import open_network
from conch.component.parameters import NiceConfig, be_nice, existing
from conch.families.family import WeightsPackage
from conch.packaged import packaged
from conch.wire.errors import InvalidRequestError

ACOUSTIC, VOCODER = "acoustic.onnx", "vocoder.onnx"
SLOWEST, FASTEST = 0.25, 4.0
MAX_FRAMES = 20_000
"""Most frames of a call of a vocoder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceConfig(NiceConfig):
    intra_threads: int = 1  # several sentences are under way at once
    nice: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceNetwork:
    """A network in a file of ONNX, and where it is cut."""

    package: WeightsPackage
    folder: str
    file: str
    sha256: str
    acoustic: tuple[Sequence[str], Sequence[str]]
    """Inputs and outputs of the first graph."""
    vocoder: tuple[Sequence[str], Sequence[str]]
    """Inputs and outputs of the vocoder."""
    edit_first: Callable[[Any], None] = lambda graph: None
    edit: Callable[[Any], None]
    revision: int
    """Raise it with every change of the graphs."""

    def source(self, model: str) -> Path:
        """Return the network's file: the package's, or `model`, which may be its folder."""
        if not model:
            return packaged(self.package, self.folder, {self.file: self.sha256}) / self.file
        path = Path(model)
        return existing(path / self.file if path.is_dir() else path, self.package.what)

    def graphs(self, model: str) -> Path:
        """Return a folder with the graphs, which are made at first use."""
        source = self.source(model)
        name = f"{source.stem}-{digest_of(source)}-{self.revision}"
        return cached_folder(name, f"the graphs of {source.stem}", partial(self.write, source))

    def open(self, config: VoiceConfig, name: str) -> onnxruntime.InferenceSession:
        """Open one of the graphs for a component, in whose process it is."""
        be_nice(config.nice)
        path = self.graphs(config.model) / name
        return open_network(self.package.what, path, config.threads)

    def write(self, source: Path, folder: Path) -> None:
        # Where it is needed: it takes a second to import.
        import onnx
        from onnx.utils import Extractor

        folder.mkdir()
        cut = Extractor(onnx.load(str(source)))
        parts = ((ACOUSTIC, self.acoustic, self.edit_first), (VOCODER, self.vocoder, self.edit))
        for name, ends, edit in parts:
            part = cut.extract_model(*map(list, ends))
            edit(part.graph)
            onnx.save(part, str(folder / name))


def replace_nodes(graph: Any, nodes: Iterable[Any]) -> None:
    """Leave only those of `nodes`, and weights, in a graph that its outputs need."""
    wanted = {item.name for item in graph.output}
    left = []
    for node in reversed([*nodes]):
        if wanted.intersection(node.output):
            left.append(node)
            wanted.update(node.input)
    weights = [item for item in graph.initializer if item.name in wanted]
    for field, items in ((graph.node, left[::-1]), (graph.initializer, weights)):
        del field[:]
        field.extend(items)


def sounds_of(row: Row, most: int) -> tuple[Array, FloatArray]:
    """Return inputs of an acoustic model: tokens, int64 `[1, N]`, N at most `most`; speed `[1]`."""
    tokens, speed = row.inputs["tokens"].ravel(), row.inputs["speed"].ravel()
    if not 0 < len(tokens) <= most:
        raise InvalidRequestError(f"input 'tokens' takes 1 to {most} sounds; sent: {len(tokens)}")
    if not SLOWEST <= speed[0] <= FASTEST:
        raise InvalidRequestError(
            f"input 'speed' takes {SLOWEST:g} to {FASTEST:g}; sent: {speed[0]:g}"
        )
    return tokens[np.newaxis].astype(np.int64), speed.astype(np.float32)


@dataclass(frozen=True, slots=True)
class Stretch:
    latents: FloatArray
    """`[frames, channels]`"""
    before: int
    """Frames in front that are not spoken."""
    after: int
    """Frames behind that are not spoken."""
    first: int
    """Place of the first frame in the whole text."""

    @classmethod
    def of(cls, row: Row, channels: int) -> "Stretch":
        latents = row.inputs["latents"]
        before, after, first = (int(item) for item in row.inputs["context"].ravel())
        if len(latents) > MAX_FRAMES or latents.shape[1:] != (channels,):
            raise InvalidRequestError(
                f"input 'latents' takes at most {MAX_FRAMES} frames of {channels} values; "
                f"sent: {list(latents.shape)}"
            )
        if min(before, after, first) < 0 or before + after >= len(latents):
            raise InvalidRequestError(
                "input 'context' takes counts of frames that leave at least one of "
                f"{len(latents)}; sent: {before}, {after}, {first}"
            )
        return cls(latents, before, after, first)

    def spoken(self, samples: FloatArray, frame_samples: int) -> FloatArray:
        """Return the samples of the spoken frames, from those of all frames."""
        end = len(self.latents) - self.after
        return samples[self.before * frame_samples : end * frame_samples]
