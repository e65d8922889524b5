"""Features for models of NeMo, held against the numbers with which sherpa-onnx feeds them."""

from pathlib import Path

import numpy as np
import pytest
import sherpa_onnx
import soundfile
from onnx import TensorProto
from transducer_toys import Toy, with_tokens

from conch.catalogue.exports import NEMO, NEMO_TRANSDUCER, AcousticEncoder
from conch.cli.demo import SPEECH
from conch.families.search.graphs import fbank_of, features_of

MELS, SCALE, SHIFT = 80, 0.3, 2.0


def nemo(features=NEMO, **settings):
    return AcousticEncoder(
        path=Path(), header=None, features=features, takes_batches=False, **settings
    )


def probe(folder: Path, mel: int, normalize_type: str) -> dict[str, str]:
    """Return the files of a transducer whose probabilities tell the feature of a filter."""
    encoder, decoder, joiner = (Toy(0) for _ in range(3))
    encoder.gives(encoder.takes("x", "N", MELS, "T"), "out", "N", MELS, "T")
    encoder.gives_ints(encoder.takes_ints("length", "N"), "lens", "N")
    decoder.takes("y", "N", "U", elem_type=TensorProto.INT32)
    count = decoder.takes("n", "N", elem_type=TensorProto.INT32)
    h, c = (decoder.takes(name, 1, "N", 4) for name in "hc")
    decoder.gives(decoder.transposed(h, 1, 2, 0), "out", "N", 4, "U")
    decoder.gives(count, "lens", "N", elem_type=TensorProto.INT32)
    decoder.gives(h, "next_h", 1, "N", 4)
    decoder.gives(c, "next_c", 1, "N", 4)
    heard = joiner.transposed(joiner.takes("heard", "N", MELS, "T"), 0, 2, 1)
    joiner.takes("said", "N", 4, "U")
    weights = np.zeros((MELS, 3), np.float32)
    weights[mel, 0] = SCALE
    logits = joiner.op("MatMul", heard, joiner.array(weights))
    logits = joiner.op("Add", logits, joiner.array(np.array([SHIFT, 0, -60], np.float32)))
    joiner.gives(joiner.unsqueezed(logits, 2), "logits", "N", "T", "U", 3)
    about = {"vocab_size": 2, "pred_rnn_layers": 1, "pred_hidden": 4, "subsampling_factor": 1}
    encoder.save(folder / "encoder.onnx", normalize_type=normalize_type, **about)
    decoder.save(folder / "decoder.onnx")
    joiner.save(folder / "joiner.onnx")
    with_tokens(folder, ["a", "b", "<blk>"])
    parts = {part: str(folder / f"{part}.onnx") for part in ("encoder", "decoder", "joiner")}
    return {**parts, "tokens": str(folder / "tokens.txt")}


@pytest.mark.parametrize("normalize_type", ["", "per_feature"])
@pytest.mark.parametrize("mel", [0, 60])
def test_a_transducer_of_recordings_gets_the_same(tmp_path, normalize_type, mel):
    waveform = soundfile.read(SPEECH, dtype="float32")[0][:20_000]
    files = probe(tmp_path, mel, normalize_type)
    recognizer = sherpa_onnx.OfflineRecognizer.from_transducer(
        **files, model_type="nemo_transducer"
    )
    stream = recognizer.create_stream()
    stream.accept_waveform(16_000, waveform)
    recognizer.decode_stream(stream)
    # Ten units, the most, at each frame.
    log_probs = np.array(stream.result.ys_log_probs[::10], np.float64)
    signs = [1 if unit == "a" else -1 for unit in stream.result.tokens[::10]]
    expected = (-np.log(np.expm1(-log_probs)) * signs - SHIFT) / SCALE
    is_normalised = normalize_type == "per_feature"
    found = features_of(nemo(NEMO_TRANSDUCER, is_normalised=is_normalised), waveform)
    assert len(found) == 125
    np.testing.assert_allclose(found[:, mel], expected, atol=1e-4)


def test_pieces_of_a_stream_are_the_whole():
    waveform = np.random.default_rng(0).normal(0, 0.1, 12_345).astype(np.float32)
    encoder = nemo(num_mels=128)
    stream, found = fbank_of(encoder), []
    for piece in np.split(waveform, [1, 500, 7000]):
        stream.accept(piece)
        done = sum(map(len, found))
        found.append(stream.frames(done, stream.ready))
    stream.finish()
    found.append(stream.frames(sum(map(len, found)), stream.ready))
    np.testing.assert_array_equal(np.concatenate(found), features_of(encoder, waveform))


def test_a_recording_of_one_frame():
    found = features_of(nemo(is_normalised=True), np.full(100, 0.1, np.float32))
    np.testing.assert_array_equal(found, np.zeros((1, 80), np.float32))
