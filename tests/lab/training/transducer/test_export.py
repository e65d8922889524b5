"""An exported folder by sherpa-onnx's rules, against the model that it was made of."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from conch.component.kaldi_fbank import KaldiFbank
from lab.training.ctc.model import CtcModelConfig
from lab.training.transducer.model import Transducer, TransducerConfig
from lab.training.transducer.units import learned_units, text_of

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
# torch's exporter in Python announces its successor.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TEXTS = ["the cat sat on the mat", "it's the hat that the cat had", "a bat and a rat"]
VOCAB_SIZE = 32


@pytest.fixture(scope="module")
def model() -> Transducer:
    torch.manual_seed(0)
    encoder = CtcModelConfig(vocab_size=29, model_size=64, num_heads=2, num_layers=3)
    config = TransducerConfig(
        vocab_size=VOCAB_SIZE,
        encoder=encoder,
        chunk_frames=8,
        left_frames=16,
        frozen_layers=2,
        joiner_size=24,
    )
    model = Transducer(config).eval()
    with torch.no_grad():
        model.joiner.output.bias[0] = -0.5  # no more blanks than units
    return model


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    from lab.training.transducer.export import export

    folder = tmp_path_factory.mktemp("transducer")
    export(model, learned_units(TEXTS, VOCAB_SIZE), folder)
    return folder


@pytest.fixture(scope="module")
def waveform() -> np.ndarray:
    noise = np.random.default_rng(0).normal(size=16_000) * np.linspace(0, 0.3, 16_000)
    return noise.astype(np.float32)


@torch.inference_mode()
def whole(model, fbank):
    """Return the encoder's output as in training."""
    lens = torch.full((len(fbank),), fbank.shape[1])
    return model.projected(model.trained_layers(model.frozen(fbank, lens), lens // 2))


def initial_states(metadata, streams):
    """Return the states that sherpa-onnx makes of the metadata, in its order."""
    of = {name: int(value) for name, value in metadata.items() if value.isdigit()}
    left, heads = of["left_context_len"], of["num_heads"]
    key, value = heads * of["query_head_dims"], heads * of["value_head_dims"]
    conv = (streams, of["encoder_dims"], of["cnn_module_kernels"] // 2)
    shapes = of["num_encoder_layers"] * [
        (left, streams, key),
        (1, streams, left, 3 * of["encoder_dims"] // 4),
        (left, streams, value),
        (left, streams, value),
        conv,
        conv,
    ]
    states = [np.zeros(shape, np.float32) for shape in [*shapes, (streams, 128, 3, 19)]]
    return [*states, np.zeros(streams, np.int64)]


def test_chunks_of_sherpas_states_are_the_whole(model, folder):
    session = onnxruntime.InferenceSession(folder / "encoder.onnx")
    metadata = session.get_modelmeta().custom_metadata_map
    assert metadata["model_type"] == "zipformer2"
    size, shift = int(metadata["T"]), int(metadata["decode_chunk_len"])
    fbank = torch.randn(3, 6 * shift, 80) - 6
    states, found = initial_states(metadata, 3), []
    names = [item.name for item in session.get_inputs()]
    for start in range(0, fbank.shape[1], shift):
        chunk = fbank[:, start : start + size].numpy()
        output, *states = session.run(None, dict(zip(names, [chunk, *states], strict=True)))
        found.append(output)
    assert np.abs(np.concatenate(found, 1) - whole(model, fbank).numpy()).max() < 1e-4


def test_tokens_are_the_joiners_units(folder):
    lines = (folder / "tokens.txt").read_text().splitlines()
    assert lines[:2] == ["<blk> 0", "<unk> 1"]
    joiner, decoder = (
        onnxruntime.InferenceSession(folder / f"{n}.onnx") for n in ("joiner", "decoder")
    )
    assert joiner.get_outputs()[0].shape[1] == len(lines) == VOCAB_SIZE
    assert decoder.get_modelmeta().custom_metadata_map == {
        "vocab_size": str(VOCAB_SIZE),
        "context_size": "2",
    }
    scores = [
        float(line.split("\t")[1]) for line in (folder / "bpe.vocab").read_text().splitlines()
    ]
    merged = [score for line, score in zip(lines, scores, strict=True) if len(line.split()[0]) > 1]
    assert all(first > second for first, second in pairwise(merged[2:]))


def test_sherpa_hears_what_the_model_hears(model, folder, waveform):
    pytest.importorskip("sherpa_onnx")
    from lab.baselines.folder_peers import recognizer_of
    from lab.training.transducer.evaluate import texts_of, with_silence

    shift = 2 * model.config.chunk_frames
    fbank = torch.from_numpy(KaldiFbank(80).whole(with_silence(waveform)))
    heard = (len(fbank) - 1) // shift * shift  # sherpa-onnx waits for one frame more
    output = whole(model, fbank[None, :heard])
    units = model.greedy(output, torch.tensor([heard // 4]))[0]
    assert units
    expected = text_of(learned_units(TEXTS, VOCAB_SIZE), units)
    assert texts_of(recognizer_of("transducer", folder), [waveform]) == [expected]
