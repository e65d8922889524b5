"""Networks that are cut in two: what a sentence needs once, and what works on any stretch of it."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime

from conch.cache import cached_folder, digest_of
from conch.component.niceness import be_nice
from conch.component.onnx import open_network, session_options
from conch.component.parameters import DeviceConfig, existing
from conch.families.family import WeightsPackage
from conch.packaged import packaged

logger = logging.getLogger(__name__)

ACOUSTIC, VOCODER = "acoustic.onnx", "vocoder.onnx"


@dataclass(frozen=True, slots=True, kw_only=True)
class VoiceConfig(DeviceConfig):
    intra_threads: int = 1
    """CPU threads of one call; several sentences are under way at once."""
    nice: int = 5
    """Least niceness of the process, 0 to 19: with more than 0, live streams of recognition go
    first."""


def unchanged(graph: Any) -> None:
    """Leave a graph as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A network in a file of ONNX, and where it is cut."""

    package: WeightsPackage
    folder: str
    """Folder in the package."""
    file: str
    sha256: str
    acoustic: tuple[Sequence[str], Sequence[str]]
    """Inputs and outputs of the first graph."""
    vocoder: tuple[Sequence[str], Sequence[str]]
    """Inputs and outputs of the vocoder."""
    edit_first: Callable[[Any], None] = unchanged
    edit: Callable[[Any], None] = unchanged
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
        what = f"the graphs of {source.stem}"

        def make(path: Path) -> None:
            logger.warning("making %s in %s, once", what, path.name)
            self.write(source, path)

        return cached_folder(f"{source.stem}-{digest_of(source)}-{self.revision}", what, make)

    def open(self, config: VoiceConfig, name: str) -> onnxruntime.InferenceSession:
        """Open one of the graphs for a component, in whose process it is."""
        be_nice(config.nice)
        options = session_options(config.threads, keeps_memory=False)
        return open_network(self.package.what, self.graphs(config.model) / name, options)

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
