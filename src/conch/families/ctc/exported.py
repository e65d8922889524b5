"""CTC models as others export them: encoders for recordings and for live audio."""

from collections.abc import Sequence

import numpy as np

from conch.catalogue.exports import AcousticEncoder, check_precision
from conch.component import Array
from conch.component.arrays import FloatArray, log_softmax
from conch.component.waveform import SAMPLE_RATE
from conch.families.ctc.folder import CtcFolder
from conch.families.ctc.vocabulary import is_folder, read_folder, vocabulary_of_folder
from conch.families.search.graphs import EncoderGraph, FolderConfig
from conch.families.search.live import LiveEncoder
from conch.families.search.recordings import ExportedEncoder
from conch.wire.errors import ConfigError


def opened_folder(config: FolderConfig) -> CtcFolder | None:
    """Return the folder that the parameter `model` names; None for a graph of Conch's recipe."""
    if not is_folder(config.model):
        return None
    if config.device != "cpu":
        raise ConfigError(f"{config.model} is a folder of CTC, which runs on a CPU alone")
    check_precision(config.precision)
    return read_folder(config.model, config.precision)


class CtcExport(ExportedEncoder):
    def __init__(self, found: CtcFolder, threads: int) -> None:
        self.vocabulary, self._blank = vocabulary_of_folder(found), found.blank
        super().__init__(_graph(found.recordings, threads))

    def encode(self, waveforms: Sequence[FloatArray], /) -> list[FloatArray]:
        """Return log probabilities, those of the blank first."""
        size = len(self.vocabulary.texts)
        return [_blank_first(item, self._blank, size) for item in super().encode(waveforms)]


class CtcExportLive(LiveEncoder):
    def __init__(self, found: CtcFolder, threads: int, stream_ttl_s: float) -> None:
        vocabulary, self._blank = vocabulary_of_folder(found), found.blank
        self._silent = vocabulary.silent
        self._size, self._frame = len(vocabulary.texts), found.frame_ms * SAMPLE_RATE // 1000
        graph = _graph(found.live, threads) if found.live else None
        super().__init__(graph, "log_probs", "ctc", str(found.folder), stream_ttl_s)

    def outputs(self, frames: FloatArray) -> dict[str, Array]:
        log_probs = _blank_first(frames, self._blank, self._size)
        return super().outputs(log_probs) | speech_outputs(log_probs, self._silent, self._frame)


def speech_outputs(
    log_probs: FloatArray, silent: Sequence[int], frame_samples: int
) -> dict[str, Array]:
    """Return the speech outputs of live audio; `log_probs` are float32 `[frames, units]`."""
    return {
        "speech_probs": 1 - np.exp(log_probs[:, silent]).sum(axis=1),
        "frame_samples": np.array([frame_samples], np.int32),
    }


def _graph(encoder: AcousticEncoder, threads: int) -> EncoderGraph:
    return EncoderGraph(encoder, "the CTC model", threads)


def _blank_first(written: FloatArray, blank: int, size: int) -> FloatArray:
    """Return log probabilities `[frames, units]` of what a network writes, the blank first."""
    if not len(written):
        return np.zeros((0, size), np.float32)
    log_probs = log_softmax(written)
    if not blank:
        return log_probs
    return np.concatenate([log_probs[:, blank, None], np.delete(log_probs, blank, 1)], axis=1)
