"""The head learns what utterances say."""

import torch

from lab.training.ctc.model import CtcModelConfig
from lab.training.frozen.train import collated_items, loss_of
from lab.training.transducer.model import Transducer, TransducerConfig


def test_the_loss_falls():
    torch.manual_seed(0)
    encoder = CtcModelConfig(vocab_size=29, model_size=64, num_heads=2, num_layers=3)
    model = Transducer(TransducerConfig(vocab_size=12, encoder=encoder, joiner_size=32))
    items = [
        (torch.randn(frames, 64).half(), list(range(2, 2 + units)), "")
        for frames, units in ((40, 6), (31, 3))
    ]
    hidden, lens, targets = collated_items(items)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(25):
        losses.append(loss_of(model, hidden, lens, targets))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < losses[0] / 4


def test_a_frozen_encoder_has_no_gradient():
    encoder = CtcModelConfig(vocab_size=29, model_size=64, num_heads=2, num_layers=3)
    model = Transducer(TransducerConfig(vocab_size=12, encoder=encoder, frozen_layers=2))
    hidden, lens, targets = collated_items([(torch.randn(40, 64).half(), [2, 3], "")])
    for frozen in (True, False):
        loss_of(model, hidden, lens, targets, 0.1, frozen=frozen).backward()
        weight = model.encoder.layers[2].attention_in.weight
        assert (weight.grad is None) == frozen
        assert model.joiner.output.weight.grad is not None
        assert model.encoder.layers[1].attention_in.weight.grad is None
