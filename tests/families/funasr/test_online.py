"""An online Paraformer writes the same as in sherpa-onnx, live and of recordings."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import funasr_toys
import numpy as np
import pytest
import sherpa_onnx

from conch.component import Row
from conch.decoding.streaming_decoder import StreamingDecoder
from conch.families.funasr.folder import read_online_paraformer
from conch.families.funasr.online import (
    OnlineDecoderConfig,
    OnlineEncoder,
    OnlineNetworks,
    OnlineParaformerComponent,
    UnitSearcher,
)
from conch.families.search.graphs import DecoderConfig, LiveConfig
from conch.wire.errors import InvalidRequestError, OptionError

STEP = 10_240
TAIL = np.zeros(round(0.9 * 16_000), np.float32)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return funasr_toys.online_paraformer(tmp_path_factory.mktemp("toys"), seed=3)


def peers_text(folder: Path, waveform: np.ndarray) -> str:
    recognizer = sherpa_onnx.OnlineRecognizer.from_paraformer(
        encoder=str(folder / "encoder.onnx"),
        decoder=str(folder / "decoder.onnx"),
        tokens=str(folder / "tokens.txt"),
        num_threads=1,
    )
    stream = recognizer.create_stream()
    stream.accept_waveform(16_000, np.concatenate([waveform, TAIL]))
    while recognizer.is_ready(stream):
        recognizer.decode_stream(stream)
    return " ".join(recognizer.get_result(stream).split())


def live(folder: Path, waveforms: list[np.ndarray]) -> list[dict[str, Any]]:
    """Return the last answers of streams that are heard at the same time."""
    encoder = OnlineEncoder(LiveConfig(model=str(folder), intra_threads=1))
    decoder = StreamingDecoder(UnitSearcher(OnlineDecoderConfig(model=str(folder))), 90.0)
    last = dict[int | str, Any]()
    before = dict[int | str, str]()
    for start in range(0, max(map(len, waveforms)), STEP):
        rows = [
            Row(
                {"waveform": item[start : start + STEP]},
                {"is_over": start + STEP >= len(item)},
                stream_id=number,
                starts=start == 0,
                ends=start + STEP >= len(item),
            )
            for number, item in enumerate(waveforms, 1)
            if start < len(item)
        ]
        encoded: Any = encoder(rows)
        units = [replace(row, inputs=found) for row, found in zip(rows, encoded, strict=True)]
        for row, sent, found in zip(rows, encoded, decoder(units), strict=True):
            assert not isinstance(found, Exception)
            text = found["hypotheses"][0].decode()
            assert text.startswith(before.get(row.stream_id, ""))
            before[row.stream_id] = found["stable"][0].decode()
            last[row.stream_id] = {**found, "behind_samples": sent["behind_samples"]}
    assert len(encoder) == len(decoder) == 0
    encoder.close()
    decoder.close()
    return [last[number] for number in range(1, len(last) + 1)]


def test_both_write_the_same(folders, waveforms):
    original, converted = folders
    expected = [peers_text(converted, item) for item in waveforms]
    assert len({*expected}) == 3 and all(len(text) > 20 for text in expected)
    for folder in (original, converted):
        whole = OnlineParaformerComponent(DecoderConfig(model=str(folder), intra_threads=1))
        recorded = whole([Row({"waveform": item}) for item in waveforms])
        heard = live(folder, waveforms)
        for text, item, one, other in zip(expected, waveforms, recorded, heard, strict=True):
            assert one["hypotheses"][0].decode() == other["hypotheses"][0].decode() == text
            assert one["word_starts"] == pytest.approx(other["word_starts"])
            assert (np.diff(one["word_starts"]) > 0).all()
            assert one["word_starts"][0] >= 0 and one["word_ends"][-1] < len(item) / 16_000 + 0.5
            assert other["behind_samples"][0] == 0


def test_streams_are_heard_one_by_one_where_a_network_is_int8(folders):
    found = read_online_paraformer(folders[1], "float32")
    plain, int8 = found.header, replace(found.header, is_int8=True)
    for headers in ((plain, plain), (int8, plain), (plain, int8)):
        sent = replace(found, header=headers[0], decoder_header=headers[1])
        assert OnlineNetworks(sent, threads=1).is_one_by_one == (int8 in headers)


def test_what_is_refused(folders):
    decoder = StreamingDecoder(
        UnitSearcher(OnlineDecoderConfig(model=str(folders[0]), language="zh")), 90.0
    )
    lens = np.ones(1, np.int32)
    row = Row({"units": np.zeros((1, 2), np.float32), "units_lens": lens}, stream_id=1, starts=True)
    (found,) = decoder([replace(row, parameters={"language": "en"})])
    assert isinstance(found, OptionError) and "takes auto or zh with this Paraformer" in str(found)
    (found,) = decoder([replace(row, inputs={**row.inputs, "units": np.float32([[40, 0]])})])
    assert isinstance(found, InvalidRequestError) and "takes units from 0 to 32" in str(found)
    decoder.close()
