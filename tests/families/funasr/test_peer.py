"""The same folder writes the same in sherpa-onnx and here, as does the one that FunASR exports."""

from pathlib import Path

import funasr_toys
import numpy as np
import pytest
import sherpa_onnx
from recordings import recordings_of

from conch.component import Row
from conch.families.funasr.paraformer import ParaformerComponent
from conch.families.search.graphs import DecoderConfig


@pytest.fixture(scope="module")
def waveforms() -> list[np.ndarray]:
    found = recordings_of(Path(__file__).parents[2] / "data")
    # The last one is of one feature, in which nothing is found.
    return [*(item.waveform() for item in found[:3]), found[0].waveform()[:600]]


def peers(folder: Path, waveforms: list[np.ndarray]) -> list[tuple[str, list[float]]]:
    recognizer = sherpa_onnx.OfflineRecognizer.from_paraformer(
        paraformer=str(folder / "model.onnx"), tokens=str(folder / "tokens.txt"), num_threads=1
    )
    found = []
    for waveform in waveforms:
        stream = recognizer.create_stream()
        stream.accept_waveform(16_000, waveform)
        recognizer.decode_stream(stream)
        found.append((" ".join(stream.result.text.split()), stream.result.timestamps))
    return found


@pytest.mark.parametrize("says_times", [True, False])
def test_both_write_the_same(tmp_path, waveforms, says_times):
    original, converted = funasr_toys.paraformer(tmp_path, seed=3, says_times=says_times)
    expected = peers(converted, waveforms)
    assert all(len(text) > 20 for text, _ in expected[:-1])
    assert expected[-1][0] == ""
    for folder in (original, converted):
        component = ParaformerComponent(DecoderConfig(model=str(folder), intra_threads=1))
        rows = component([Row({"waveform": item}) for item in waveforms])
        assert [row["hypotheses"][0].decode() for row in rows] == [text for text, _ in expected]
        for (_, times), waveform in zip(expected, waveforms, strict=True):
            units = component.units(waveform)
            starts = [unit.start for unit in units]
            if says_times:
                assert starts == pytest.approx(times)
            else:
                even = np.linspace(0, len(waveform) / 16_000, len(units), endpoint=False)
                assert starts == pytest.approx(even)
