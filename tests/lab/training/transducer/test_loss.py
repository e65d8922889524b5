"""The loss of a transducer against the sum over all of its paths."""

from itertools import combinations

import torch

from lab.training.transducer.loss import transducer_loss


def test_loss_and_gradient_are_those_of_all_paths():
    torch.manual_seed(0)
    lens, target_lens = torch.tensor([5, 4, 3]), torch.tensor([3, 1, 0])
    scores = torch.randn(3, 5, 4, 6, dtype=torch.float64, requires_grad=True)
    log_probs = scores.log_softmax(3)
    blank, unit = log_probs[..., 0], log_probs[..., 1]

    def by_paths(row):
        paths = []
        for writing in combinations(range(lens[row]), int(target_lens[row])):
            arcs, written = [], 0
            for frame in range(lens[row]):
                of = unit if frame in writing else blank
                arcs.append(of[row, frame, written])
                written += frame in writing
            paths.append(torch.stack(arcs).sum())
        return -torch.stack(paths).logsumexp(0)

    expected = torch.stack([by_paths(row) for row in range(3)])
    found = transducer_loss(blank, unit, lens, target_lens)
    torch.testing.assert_close(found, expected)
    weights = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    (of_paths,) = torch.autograd.grad((expected * weights).sum(), scores, retain_graph=True)
    (gradient,) = torch.autograd.grad((found * weights).sum(), scores)
    torch.testing.assert_close(gradient, of_paths)
