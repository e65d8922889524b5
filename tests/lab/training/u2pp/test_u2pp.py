"""A U2++ learns, and its exports by Conch are the model that they were made of."""

import copy

import numpy as np
import pytest
import torch

from conch.component import Row
from conch.families.search.graphs import RecordingsConfig
from conch.families.wenet.encoder import WenetEncoder
from conch.families.wenet.folder import read_wenet
from conch.families.wenet.networks import AttentionDecoders
from lab.training.ctc.model import CtcModelConfig
from lab.training.frozen.train import collated_items, loss_of
from lab.training.transducer.units import learned_units
from lab.training.u2pp.features import fbank_of, fitted_front
from lab.training.u2pp.model import U2pp, U2ppConfig

pytest.importorskip("onnx")
pytestmark = [
    # torch's exporter in Python announces its successor.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Constant folding"),
]

TEXTS = ["the cat sat on the mat", "it's the hat that the cat had", "a bat and a rat"]


@pytest.fixture(scope="module")
def waveforms():
    rng = np.random.default_rng(0)
    return [
        (rng.normal(size=count) * np.linspace(0.01, 0.3, count)).astype(np.float32)
        for count in (32_000, 20_000)
    ]


@pytest.fixture(scope="module")
def model(waveforms):
    torch.manual_seed(0)
    encoder = CtcModelConfig(vocab_size=29, model_size=64, num_heads=2, num_layers=3)
    config = U2ppConfig(
        vocab_size=33,
        encoder=encoder,
        chunk_frames=8,
        left_frames=32,
        frozen_layers=2,
        output_size=32,
    )
    model = U2pp(config).eval()
    model.front = fitted_front(waveforms)
    return model


@pytest.mark.parametrize(
    "kind",
    ["cpu", *(pytest.param(kind, marks=pytest.mark.nightly) for kind in ("gpu", "gpu-live"))],
)
@torch.inference_mode()
def test_frames_and_scores_of_an_export_are_those_of_the_model(model, waveforms, kind, tmp_path):
    from lab.training.u2pp.export import export

    export(model, learned_units(TEXTS, 32), tmp_path, kind)
    found = read_wenet(tmp_path)
    assert (found.hears_live, found.is_bidirectional) == (kind != "gpu", True)
    assert len(found.tokens) == 33
    encoder = WenetEncoder(RecordingsConfig(model=str(tmp_path), intra_threads=1))
    for waveform, item in zip(
        waveforms, encoder([Row({"waveform": item}) for item in waveforms]), strict=True
    ):
        fbank = torch.from_numpy(fbank_of(waveform))[None]
        lens = torch.tensor([fbank.shape[1]])
        expected = model.heard(fbank, lens, is_whole=kind == "gpu")
        np.testing.assert_allclose(item["frames"][:, 33:], expected[0], atol=1e-4)
        log_probs, best = item["frames"][:, :33], model.log_probs(expected)[0].topk(10, 1)
        np.testing.assert_allclose(
            np.take_along_axis(log_probs, best.indices.numpy(), 1), best.values, atol=1e-4
        )
        texts = [[4, 7, 5], [9]]
        scores = AttentionDecoders(found, 1).scores(expected[0].numpy(), texts, [-3.0, -5.0])
        expected_scores = [
            by_readers(model, expected, units) + 0.5 * ctc
            for units, ctc in zip(texts, (-3.0, -5.0), strict=True)
        ]
        np.testing.assert_allclose(scores, expected_scores, atol=1e-4)


def by_readers(model, encoder_out, units):
    found = []
    for reader, text in ((model.left, units), (model.right, units[::-1])):
        hyps, lens = torch.tensor([[32, *text]]), torch.tensor([len(text) + 1])
        mask = torch.ones(1, 1, encoder_out.shape[1], dtype=torch.bool)
        rows = reader(hyps, lens, encoder_out, mask)[0].log_softmax(-1)
        found.append(sum(rows[place, unit].item() for place, unit in enumerate([*text, 32])))
    return 0.7 * found[0] + 0.3 * found[1]


def test_the_loss_falls(model):
    learner = copy.deepcopy(model)
    hidden, lens, targets = collated_items([(torch.randn(24, 64).half(), [2, 3, 4], "")])
    optimizer = torch.optim.Adam(learner.parameters(), lr=1e-2)
    losses = []
    for _ in range(8):
        losses.append(loss_of(learner, hidden, lens, targets, is_whole=True))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < losses[0] / 2
