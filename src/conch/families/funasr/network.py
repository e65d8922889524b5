"""A network that takes features at a low frame rate."""

from collections.abc import Sequence

import numpy as np
import onnxruntime

from conch.component.arrays import Array, FloatArray
from conch.component.onnx import open_network, session_options
from conch.families.funasr.features import features_of
from conch.families.funasr.folder import Folder, FunasrFolder, Reader
from conch.families.search.folders import NamesFolder, folder_of
from conch.families.search.graphs import TYPES


def opened_folder(config: NamesFolder, kind: str, read: Reader[Folder]) -> Folder:
    return folder_of(config, kind, f"holds no {kind}", read)


class LowRateNetwork:
    """Runs one segment at a time: a padded row would be another text where two units are close."""

    def __init__(self, found: FunasrFolder, threads: int) -> None:
        self._front_end = found.front_end
        self._inputs = found.header.inputs
        options = session_options(threads, keeps_memory=False)
        self._session = open_network("a network of FunASR", found.network, options)
        # The activations of a long segment would be kept for the next one.
        self._once = onnxruntime.RunOptions()
        self._once.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")

    def run(self, waveform: FloatArray, *more: int | FloatArray) -> Sequence[Array]:
        """Return the outputs for a waveform, float32 `[samples]` at 16 kHz in [-1, 1].

        There are none for less than a frame. `more` are the inputs behind the number of frames.
        """
        features = features_of(self._front_end, waveform)
        if not len(features):
            return ()
        x, *others = self._inputs
        feed: dict[str, Array] = {x.name: features[None]}
        for item, value in zip(others, (len(features), *more), strict=True):
            feed[item.name] = np.array([value], TYPES.get(item.kind, np.float32))
        found: Sequence[Array] = self._session.run(None, feed, self._once)
        return found
