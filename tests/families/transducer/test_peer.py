"""The same folder writes the same in sherpa-onnx, whose models these are, and here."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import nemo_toys
import numpy as np
import pytest
import sherpa_onnx
import transducer_toys
from recordings import recordings_of

from conch.component import Row
from conch.families.transducer.decoder import (
    TransducerDecoder,
    TransducerDecoderConfig,
    TransducerStreamingDecoder,
    TransducerStreamingDecoderConfig,
)
from conch.families.transducer.encoder import TransducerEncoder, TransducerEncoderConfig
from conch.families.transducer.streaming_encoder import (
    TransducerStreamingEncoder,
    TransducerStreamingEncoderConfig,
)

METHODS = {1: "greedy_search", 4: "modified_beam_search"}
STEP = 10_240
RECORDINGS = {"offline": "transducer", "rnnt": "nemo_transducer", "tdt": "nemo_transducer"}
"""Kinds that hear no live audio, and what the peer calls them."""
NEMO = {"rnnt": 5, "tdt": 3, "streaming": 5}
"""Kinds of NeMo's, and a seed with which their texts are lively."""


@pytest.fixture(scope="module")
def waveforms() -> list[np.ndarray]:
    found = recordings_of(Path(__file__).parents[2] / "data")
    return [item.waveform() for item in found[:3]]


def peers_text(folder: Path, kind: str, beam_size: int, waveform: np.ndarray) -> tuple[str, list]:
    """Return the text of sherpa-onnx, and the times of its units."""
    files = {part: str(folder / f"{part}.onnx") for part in ("decoder", "joiner")}
    (encoder,) = folder.glob("encoder*.onnx")
    settings = {
        **files,
        "encoder": str(encoder),
        "tokens": str(folder / "tokens.txt"),
        "decoding_method": METHODS[beam_size],
        "max_active_paths": beam_size,
        "num_threads": 1,
    }
    if kind in RECORDINGS:
        recognizer = sherpa_onnx.OfflineRecognizer.from_transducer(
            **settings, model_type=RECORDINGS[kind]
        )
        stream = recognizer.create_stream()
        stream.accept_waveform(16_000, waveform)
        recognizer.decode_stream(stream)
        return " ".join(stream.result.text.split()), stream.result.timestamps
    recognizer = sherpa_onnx.OnlineRecognizer.from_transducer(**settings)
    stream = recognizer.create_stream()
    for start in range(0, len(waveform), STEP):
        stream.accept_waveform(16_000, waveform[start : start + STEP])
        while recognizer.is_ready(stream):
            recognizer.decode_stream(stream)
    # As its examples do.
    stream.accept_waveform(16_000, np.zeros(int(0.66 * 16_000), np.float32))
    stream.input_finished()
    while recognizer.is_ready(stream):
        recognizer.decode_stream(stream)
    found = recognizer.get_result_all(stream)
    return " ".join(found.text.split()), found.timestamps


def recorded(folder: Path, beam_size: int, waveforms: list[np.ndarray]) -> list[Any]:
    encoder = TransducerEncoder(TransducerEncoderConfig(model=str(folder), intra_threads=1))
    decoder = TransducerDecoder(TransducerDecoderConfig(model=str(folder), intra_threads=1))
    encoded = encoder([Row({"waveform": item}) for item in waveforms])
    return [*decoder([Row(item, {"beam_size": beam_size}) for item in encoded])]


def live(folder: Path, beam_size: int, waveforms: list[np.ndarray]) -> list[str]:
    """Return the texts of streams that are heard at the same time."""
    encoder = TransducerStreamingEncoder(TransducerStreamingEncoderConfig(model=str(folder)))
    decoder = TransducerStreamingDecoder(TransducerStreamingDecoderConfig(model=str(folder)))
    texts = dict[int, str]()
    for start in range(0, max(map(len, waveforms)), STEP):
        rows = [
            Row(
                {"waveform": item[start : start + STEP]},
                {"beam_size": beam_size},
                stream_id=number,
                starts=start == 0,
                ends=start + STEP >= len(item),
            )
            for number, item in enumerate(waveforms, 1)
            if start < len(item)
        ]
        encoded: Any = encoder(rows)
        frames = [replace(row, inputs=found) for row, found in zip(rows, encoded, strict=True)]
        for row, found in zip(rows, decoder(frames), strict=True):
            texts[row.stream_id] = found["hypotheses"][0].decode()
    encoder.close()
    decoder.close()
    return [texts[number] for number in sorted(texts)]


@pytest.mark.parametrize("beam_size", METHODS)
@pytest.mark.parametrize("kind", ["zipformer2", "lstm", "conformer", "offline", *NEMO])
def test_both_write_the_same(tmp_path, waveforms, kind, beam_size):
    toys, frame_s = (nemo_toys, 0.08) if kind in NEMO else (transducer_toys, 0.04)
    folder = getattr(toys, kind)(tmp_path / kind, seed=NEMO.get(kind, 3))
    expected = [peers_text(folder, kind, beam_size, item) for item in waveforms]
    found = recorded(folder, beam_size, waveforms)
    texts = [item["hypotheses"][0].decode() for item in found]
    # For live audio of NeMo, sherpa-onnx has another beam search.
    if (kind, beam_size) != ("streaming", 4):
        assert texts == [text for text, _ in expected]
        for item, (text, times) in zip(found, expected, strict=True):
            starts = item["word_starts"][: item["num_words"][0]]
            assert len(starts) == len(text.split())
            frames = {round(time / frame_s) for time in times}
            assert {round(time / frame_s) for time in starts} <= frames
    assert len(set(texts)) == len(texts) and len(" ".join(texts).split()) > 15
    if kind not in RECORDINGS:
        assert live(folder, beam_size, waveforms) == texts
