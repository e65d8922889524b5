"""The `attention_encoder` component: Whisper's encoder."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ctranslate2
import numpy as np

from conch.component import SAMPLE_RATE, FloatArray, Outputs, Row
from conch.component.ctranslate import CTranslate2Config
from conch.component.features import FRAME_SHIFT, log_mel_spectrogram
from conch.families.whisper.config import WINDOW_S, load_whisper
from conch.wire.errors import ConfigError, OptionError

SAMPLES_PER_FRAME = 2 * FRAME_SHIFT
"""Samples of one hidden state: the encoder's second convolution has stride 2."""
LEAST_WINDOW_MS = 1000
"""Shortest window that a request may ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhisperEncoderConfig(CTranslate2Config):
    # Whisper was trained on windows of 30 s. Shorter windows cost less and are as accurate if some
    # silence follows the speech. With less silence than this, the decoder repeats itself.
    min_window_s: float = 15.0
    window_margin_s: float = 5.0
    window_step_s: float = 2.5


class WhisperEncoder:
    def __init__(self, config: WhisperEncoderConfig) -> None:
        if not 0 < config.min_window_s <= WINDOW_S:
            raise ConfigError(f"min_window_s must be in (0, 30]; is: {config.min_window_s}")
        if config.window_step_s <= 0 or config.window_margin_s < 0:
            raise ConfigError("window_step_s must be above 0 and window_margin_s not below it")
        self._config = config
        self._model = load_whisper(config)

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs]:
        """Return the outputs of rows with `waveform`; on a GPU, equal windows share a batch."""
        waveforms = [row.segment(WINDOW_S) for row in rows]
        groups: dict[int, list[int]] = defaultdict(list)
        for index, (row, waveform) in enumerate(zip(rows, waveforms, strict=True)):
            config = _with_window(self._config, row.parameters)
            groups[window_frames(len(waveform), config)].append(index)
        by_index: dict[int, FloatArray] = {}
        for num_frames, group in groups.items():
            encoded = self.encode([waveforms[index] for index in group], num_frames)
            by_index.update(zip(group, encoded, strict=True))
        # Round down, so that no word ends after the audio.
        lens = [max(1, len(waveform) // SAMPLES_PER_FRAME) for waveform in waveforms]
        return [
            {"encoder_out": by_index[index], "encoder_out_lens": np.array([length], np.int32)}
            for index, length in enumerate(lens)
        ]

    def encode(self, waveforms: Sequence[FloatArray], num_frames: int) -> FloatArray:
        """Return hidden states, float32 `[N, num_frames / 2, model size]`; frames have 10 ms."""
        mels = self._model.n_mels
        features = np.stack([log_mel_spectrogram(item, num_frames, mels) for item in waveforms])
        # The caches of a CPU hold the activations of one window only: a batch of 8 takes longer
        # than 8 calls.
        step = 1 if self._model.device == "cpu" else len(features)
        batches = [features[start : start + step] for start in range(0, len(features), step)]
        return np.concatenate([self._encode_batch(batch) for batch in batches])

    def _encode_batch(self, features: FloatArray) -> FloatArray:
        view = self._model.encode(ctranslate2.StorageView.from_array(features), to_cpu=True)
        return np.asarray(view).astype(np.float32, copy=False)


def window_frames(num_samples: int, config: WhisperEncoderConfig) -> int:
    """Return the window for `num_samples` of audio, in feature frames of 10 ms."""
    seconds = max(config.min_window_s, num_samples / SAMPLE_RATE + config.window_margin_s)
    stepped = math.ceil(seconds / config.window_step_s) * config.window_step_s
    return round(min(stepped, WINDOW_S) * SAMPLE_RATE / FRAME_SHIFT)


def _with_window(
    config: WhisperEncoderConfig, parameters: Mapping[str, Any]
) -> WhisperEncoderConfig:
    """Return the configuration with the window that a request asks for, in milliseconds."""
    most = round(WINDOW_S * 1000)
    window: dict[str, Any] = {}
    for name, least in (("min_window_ms", LEAST_WINDOW_MS), ("window_margin_ms", 0)):
        if (value := parameters.get(name)) is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise OptionError(
                f"option '{name}' takes an integer from {least} to {most}; sent: {value!r:.80}"
            )
        window[name.removesuffix("ms") + "s"] = value / 1000
    return replace(config, **window)
